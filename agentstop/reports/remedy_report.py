"""What people are told before many operations are checked, settled or undone at the desk, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext

from agentstop import compensate, connectors, database, follow_up, frozen, per_operation, permissions, reconcile, settle
from agentstop.exceptions import AgentStopError, Denied, Refused, TaskNotFound
from agentstop.models import Operation
from agentstop.per_operation import Answer, NotReached
from agentstop.reports import freeze_report
from agentstop.reports.remedies import UNDONE_ONCE, undoing_reads
from agentstop.settlement import SETTLED_BY_HAND, NotSettled, SentAgain, settle_by_hand
from agentstop.states import OperationState
from agentstop.words import manifold, remedy_words, sentences
from agentstop.words.sentences import Tone

LISTED = 100  # operations that a question names; the counts are of all


class Remedy(StrEnum):
    """What can be done about operations at the desk."""

    CHECK = "check"
    SETTLE = "settle"
    UNDO = "undo"


PERMISSIONS = {
    Remedy.CHECK: "view_task",
    Remedy.SETTLE: "settle_operation",
    Remedy.UNDO: "compensate_operation",
}


@dataclass(frozen=True, slots=True)
class Consequence:
    """What undoing operations of one action does, in the provider's words; `held`: why it would not be sent now."""

    what: str
    consequences: str
    extent: str
    several: str
    held: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The operations that a person is about to do something to, counted before anything happens."""

    remedy: Remedy
    operations: Sequence[Operation]  # those that it can be done to
    counts: Sequence[str]
    found: int  # how many there are of which this person may know
    consequences: Sequence[Consequence] = ()

    @classmethod
    def of(cls, user: Any, remedy: Remedy, rows: QuerySet[Operation]) -> Choice:
        every = rows.select_related("task", "compensates")
        found = [each for each in every if permissions.may(user, "view_task", each.task)]
        settle.fresh(found)
        allowed = [each for each in found if permissions.may(user, PERMISSIONS[remedy], each.task)]
        able = _able(remedy, allowed)
        counts = _counts(remedy, len(able), len(allowed) - len(able), len(found) - len(allowed))
        return cls(remedy, able, counts, len(found), _consequences(able) if remedy is Remedy.UNDO else ())

    @property
    def listed(self) -> Sequence[Operation]:
        return self.operations[:LISTED]

    @property
    def more(self) -> int:
        return len(self.operations) - len(self.listed)

    @property
    def value(self) -> str:
        """The operations and how often each was sent: a person's word is about no attempt that came after it."""
        return " ".join(f"{each.pk}:{each.attempts}" for each in self.operations)


def _able(remedy: Remedy, rows: Sequence[Operation]) -> Sequence[Operation]:
    if remedy is Remedy.CHECK:
        return [each for each in rows if each.attempts and follow_up.can_look_up(each)]
    if remedy is Remedy.SETTLE:
        return [each for each in rows if each.state in SETTLED_BY_HAND]
    done = [each for each in rows if each.state == OperationState.SUCCEEDED and each.compensates_id is None]
    undone = _undone([each.pk for each in done])
    return [each for each in done if each.pk not in undone and _way(each) is not None]


def _undone(ids: Sequence[int]) -> set[int]:
    undoings = Operation.objects.using(database.alias()).filter(state__in=UNDONE_ONCE)
    found: set[int] = set()
    for batch in database.batches(ids):
        found |= {pk for pk in undoings.filter(compensates__in=batch).values_list("compensates", flat=True) if pk}
    return found


def _way(operation: Operation) -> Any:
    return connectors.capability(operation.connector, operation.action).compensation


def _counts(remedy: Remedy, able: int, unable: int, denied: int) -> list[str]:
    said = [_count(remedy_words.CAN[remedy], able) if able else gettext(remedy_words.NOTHING_TO_DO)]
    aside = ((remedy_words.CANNOT, unable), (remedy_words.MAY_NOT, denied))
    return said + [_count(words[remedy], number) for words, number in aside if number]


def _count(text: Any, number: int) -> str:
    return str(text % {"count": number})


def _consequences(operations: Sequence[Operation]) -> list[Consequence]:
    kinds = Counter((each.connector, each.action) for each in operations)
    doubled = {(each.connector, each.action) for each in operations if each.doubled}
    known = frozen.seen(database.now())
    return [_consequence(*kind, many, kind in doubled, known) for kind, many in sorted(kinds.items())]


def _consequence(connector: str, action: str, many: int, doubled: bool, known: frozen.Known) -> Consequence:
    way = connectors.capability(connector, action).compensation
    if way is None:
        raise AssertionError(f"{action!r} of {connector!r} cannot be undone")
    held = known.holding(connector, way.action, lambda: None)
    named = {"count": many, "action": action, "connector": connector}
    return Consequence(
        what=str(remedy_words.UNDOES % named),
        consequences=way.consequences or gettext(sentences.NO_CONSEQUENCES),
        extent=gettext(sentences.EXTENTS[way.extent]),
        several=gettext(manifold.UNDOES_ONE_OF_SEVERAL) if doubled else "",
        held=gettext(remedy_words.HELD) % {"what": freeze_report.what(held)} if held is not None else "",
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one operation; `kind` is a key of `remedy_words.ANSWERED`, `operation` None where it is hidden."""

    id: int
    operation: Operation | None  # as it is afterwards
    kind: str
    text: str


def check(named: Mapping[int, int], by: Any) -> list[Told]:
    """Have the providers of these operations asked, each by itself."""

    def begin(operation: int) -> Future[Any]:
        asked = reconcile.begin_look_up(operation, by=by)
        return per_operation.done(False) if asked is None else asked

    return _all(named, by, begin, _checked)


def _checked(answer: Answer[Any], row: Operation) -> tuple[str, str]:
    if answer.result is False:
        return "info", remedy_words.CANNOT_BE_ASKED
    if answer.under_way:
        return "info", remedy_words.STILL_ASKED
    return ("error", remedy_words.NO_ANSWER) if answer.result is None else ("success", remedy_words.ASKED)


def settle_each(named: Mapping[int, int], by: Any, said: Callable[[int], tuple[str, str] | None]) -> list[Told]:
    """Settle each as `said` has it, an outcome and the evidence; None: nothing is said of that operation."""

    def begin(operation: int) -> Future[Any]:
        word = said(operation)
        if word is None:
            return per_operation.done(None)
        outcome, reason = word
        attempts = named[operation]
        return per_operation.done(settle_by_hand(operation, by=by, outcome=outcome, reason=reason, attempts=attempts))

    return _all(named, by, begin, _settled)


def _settled(answer: Answer[Any], row: Operation) -> tuple[str, str]:
    return ("info", remedy_words.UNSAID) if answer.result is None else ("success", remedy_words.SETTLED)


def undo(named: Mapping[int, int], by: Any, reason: str) -> list[Told]:
    """Undo each, by an operation of its own."""
    return _all(named, by, lambda pk: compensate.compensate(pk, by=by, reason=reason).future, _undoing)


def _undoing(answer: Answer[Any], row: Operation) -> tuple[str, str]:
    if answer.result is None:
        return "info", sentences.UNDOING_BEGAN
    state = OperationState(answer.result.state)
    text, tone = undoing_reads(state, _way(row), doubled=row.doubled)
    if state is OperationState.SUCCEEDED:
        return "success", text
    return ("error" if tone is Tone.BAD else "info"), text


Read = Callable[[Answer[Any], Operation], tuple[str, str]]


def _all(named: Mapping[int, int], by: Any, begin: Callable[[int], Future[Any]], read: Read) -> list[Told]:
    """Each by itself, told as it is afterwards; failures come first."""
    answers = per_operation.each(named, begin)
    rows = _visible(list(named), by)
    told = [_told(answer, rows.get(answer.operation), read) for answer in answers]
    return sorted(told, key=lambda each: list(remedy_words.ANSWERED).index(each.kind))


def _visible(ids: Sequence[int], by: Any) -> dict[int, Operation]:
    rows = Operation.objects.using(database.alias()).select_related("task")
    found = [row for batch in database.batches(ids) for row in rows.filter(pk__in=batch)]
    shown = [row for row in found if permissions.may(by, "view_task", row.task)]
    settle.fresh(shown)
    return {row.pk: row for row in shown}


def _told(answer: Answer[Any], row: Operation | None, read: Read) -> Told:
    if row is None or isinstance(answer.error, TaskNotFound):
        missing = gettext(remedy_words.NO_SUCH_OPERATION) % {"operation": answer.operation}
        return Told(answer.operation, None, "error", missing)
    kind, text = _failed(answer.error) if answer.error is not None else read(answer, row)
    return Told(answer.operation, row, kind, gettext(text))


def _failed(error: Exception) -> tuple[str, str]:
    if isinstance(error, Denied):
        return "error", remedy_words.NOT_ALLOWED
    if isinstance(error, NotReached):
        return "error", remedy_words.NOT_REACHED
    if isinstance(error, SentAgain):
        return "error", remedy_words.SENT_AGAIN
    if isinstance(error, NotSettled):
        return "info", sentences.NOT_SETTLED
    if isinstance(error, Refused) and error.reason in sentences.NOT_UNDONE:
        return "info" if error.reason == "in_flight" else "error", sentences.NOT_UNDONE[error.reason]
    if isinstance(error, AgentStopError):
        return "error", str(error)
    return "error", gettext(remedy_words.FAILED) % {"error": type(error).__name__}


def counts_of(told: Sequence[Told]) -> list[str]:
    """How many went which way, for the top of the page."""
    kinds = Counter(each.kind for each in told)
    return [_count(text, kinds[kind]) for kind, text in remedy_words.ANSWERED.items() if kinds[kind]]
