"""What a run is told of the calls that earlier runs of its task left without an answer, or with one that is no more.

So that a model's history holds no dangling call, and nothing that claims that nothing happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext

from agentstop import connectors, database, settle
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.models import Attempt, Call, Decision, Operation, Run
from agentstop.models.facts import CallOutcome, Decided
from agentstop.sending import in_domain
from agentstop.states import OperationState, TaskState, Verb
from agentstop.words import handover
from agentstop.words.handover import Left
from agentstop.words.wording import Situation

NO_EFFECT = frozenset({OperationState.FAILED, OperationState.CANCELLED, OperationState.NOT_SENT})
PERHAPS_UNDONE = frozenset(OperationState) - NO_EFFECT  # by an undoing in one of these states


@dataclass(frozen=True, slots=True)
class Inherited:
    """One call of earlier runs: `sentence` is what a model is to read in place of its result.

    `call_id` is set where the call had no key of its own, and `run` where a run has asked for it.
    """

    key: str
    call_id: str
    run: int | None
    action: str
    summary: str
    state: OperationState
    sentence: str


@dataclass
class _Asked:
    """What earlier runs did about one operation."""

    runs: set[int] = field(default_factory=set)
    accepted: int | None = None  # by which of them
    failed: bool = False


class Inherits:
    """The methods of a run by which its agent hears what earlier runs left."""

    __slots__ = ()

    task_id: int
    number: int

    def inherited(self) -> list[Inherited]:
        """The calls of earlier runs whose answer did not reach them, or no longer holds, as they are now.

        Not sent, under way, of unknown outcome, done after the run was over, done and undone since. What an earlier run
        was told and still holds is left out.
        """
        return [told for told, settled in _told(self.task_id, self.number) if not settled]

    def tool_results(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """A text for each tool call that the history has without a result, by its key or call id as given to `call`.

        Without names: for all that is inherited. Give only names of calls that go through the gate: of one that no
        earlier run has asked for, the text says that it was not sent.
        """
        if names is None:
            return {told.call_id or told.key: told.sentence for told in self.inherited()}
        known = [told for told, _ in _told(self.task_id, self.number)]
        by_name = {told.call_id: told.sentence for told in known if told.call_id}
        by_name |= {told.key: told.sentence for told in known}
        return {name: by_name.get(name, gettext(handover.NEVER_ASKED)) for name in names}

    async def ainherited(self) -> list[Inherited]:
        """As `inherited`."""
        return await in_domain(self.inherited)

    async def atool_results(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """As `tool_results`."""
        return await in_domain(self.tool_results, names)


def _told(task_id: int, number: int) -> Iterator[tuple[Inherited, bool]]:
    """Each call of earlier runs, and whether all that they were told of it still holds; the oldest first."""
    rows = list(Operation.objects.using(database.alias()).filter(task=task_id, compensates=None).order_by("pk"))
    asked = _asked(rows, number)
    for row in _listed_before(task_id, number, rows):
        asked.setdefault(row.pk, _Asked())
    # Of each key the last incarnation that they asked for: it is what the key means now.
    latest = {row.key: row for row in rows if row.pk in asked}
    for row, left in _left(list(latest.values()), asked):
        yield _inherited(row, left, asked[row.pk]), _still_holds(left, asked[row.pk])


def _asked(rows: Sequence[Operation], number: int) -> dict[int, _Asked]:
    """What the runs before this one did, by operation; those that none of them asked for are missing."""
    using, ids = database.alias(), [row.pk for row in rows]
    found: dict[int, _Asked] = defaultdict(_Asked)
    sent = Attempt.objects.using(using).filter(operation__in=ids, verb=Verb.SUBMIT, run__lt=number)
    refused = Decision.objects.using(using).filter(operation__in=ids, verb=Decided.REFUSE, run__lt=number)
    for each in (sent, refused):
        for operation, run in each.values_list("operation_id", "run"):
            found[operation or 0].runs.add(run or 0)
    calls = Call.objects.using(using).filter(operation__in=ids, run__lt=number)
    for operation, run, outcome in calls.values_list("operation_id", "run", "outcome"):
        one = found[operation]
        one.runs.add(run)
        one.accepted = run if outcome == CallOutcome.ACCEPTED else one.accepted
        one.failed = one.failed or outcome == CallOutcome.FAILED
    return dict(found)


def _listed_before(task_id: int, number: int, rows: Iterable[Operation]) -> list[Operation]:
    """What was listed before this run began, and is still not asked for by anybody."""
    began = Run.objects.using(database.alias()).filter(task=task_id, number=number).values_list("began_at", flat=True)
    since = began.first()
    prepared = (row for row in rows if row.state == OperationState.PREPARED)
    return [row for row in prepared if since is not None and row.created_at < since]


def _undoings(rows: Sequence[Operation]) -> Mapping[int, OperationState]:
    """The state of the last undoing of each of these operations that has one."""
    undoings = list(Operation.objects.using(database.alias()).filter(compensates__in=rows).order_by("pk"))
    settle.fresh(undoings)
    return {each.compensates_id or 0: OperationState(each.state) for each in undoings}


def _left(rows: Sequence[Operation], asked: Mapping[int, _Asked]) -> Iterator[tuple[Operation, Left]]:
    facts, now = facts_of(rows), database.now()
    refusals, undoings = _refusals(rows), _undoings(rows)
    for row in rows:
        folded = fold(facts[row.pk], now)
        situation = Situation(
            state=folded.state,
            task=TaskState.ACTIVE,
            cancellation=folded.cancellation,
            in_lease=folded.state is OperationState.SENDING,
            since=row.state_since,
            decided_by=folded.decided_by,
            contradictory=folded.contradictory,
            doubled=folded.doubled,
            refusal=refusals.get(row.pk, ""),
            has_ref=bool(row.ref),
            capability=connectors.capability(row.connector, row.action),
        )
        one = asked[row.pk]
        last = max(one.runs, default=None)
        yield row, Left(situation, last, one.accepted, row.follow_up_at, undoings.get(row.pk), now)


def _refusals(rows: Sequence[Operation]) -> Mapping[int, str]:
    """Why the gate last refused each of them."""
    refused = Decision.objects.using(database.alias()).filter(operation__in=rows, verb=Decided.REFUSE)
    return dict(refused.order_by("pk").values_list("operation_id", "reason"))


def _still_holds(left: Left, asked: _Asked) -> bool:
    """Whether an earlier run was told what became of it, and that is still so."""
    if left.situation.state is OperationState.SUCCEEDED:
        return asked.accepted is not None and left.undoing not in PERHAPS_UNDONE
    return left.situation.state in NO_EFFECT and asked.failed and asked.accepted is None


def _inherited(row: Operation, left: Left, asked: _Asked) -> Inherited:
    run, _, call_id = row.key.partition(":")  # as `request.make` has put them together
    return Inherited(
        key=row.key,
        call_id=call_id if run in map(str, asked.runs) else "",
        run=left.run,
        action=row.action,
        summary=row.summary,
        state=left.situation.state,
        sentence=handover.tell(left),
    )
