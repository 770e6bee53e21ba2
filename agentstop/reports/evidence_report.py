"""What is told of one operation on a page of its own: each attempt, each receipt and whose result it is, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import F, IntegerField, Model, QuerySet, Value
from django.db.models.functions import Length, Substr
from django.utils.translation import gettext

from agentstop import captions, connectors, database
from agentstop.bodies import Form
from agentstop.models import Attempt, Call, Decision, Operation, Receipt
from agentstop.models.facts import CallOutcome, Decided, Effect
from agentstop.reports.remedies import name_of
from agentstop.states import Claim, Source, Verb
from agentstop.words import capability_words, evidence_words, sentences
from agentstop.words.capability_words import Described

PAGE = 50
BODY = 4000  # characters of one body that the page shows
TEXT = 1000  # characters of a reason or a reference


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said, as far as it is shown. Secrets in it were masked before it was stored."""

    text: str
    kept: int  # characters that are kept
    size: int  # bytes that it had
    cut: bool  # only its beginning is kept

    @property
    def more(self) -> bool:
        """There is more of it than is shown."""
        return self.cut or self.kept > len(self.text)


@dataclass(frozen=True, slots=True)
class Entry:
    """One fact. A time, name or text is empty where there is none."""

    kind: str
    at: datetime
    text: str
    source: str = ""  # who said it, in words
    by: str = ""  # the person, or the process
    attempt: int | None = None  # of a receipt: the attempt that it answers
    until: datetime | None = None  # of an attempt: the end of its pass
    asked_at: datetime | None = None  # of an answer: when it was asked for
    provider_at: datetime | None = None
    ref: str = ""
    reason: str = ""
    said: Said | None = None
    count: int = 1


def abilities(operation: Operation) -> Sequence[Described]:
    """What the provider can do about the operation, and what it cannot."""
    return capability_words.describe(connectors.capability(operation.connector, operation.action))


def page(operation: Operation, number: str | None) -> tuple[Page[Any], list[Entry]]:
    """One page of the operation's facts in the order in which they happened, in a fixed number of queries.

    The database puts them in order, and hands out those of the page alone: there may be ten thousand.
    """
    kinds = [_attempts(operation), _receipts(operation), _decisions(operation), _calls(operation)]
    first, *others = (_in_time(rows, at, kind) for kind, (rows, at, _) in enumerate(kinds))
    found: Page[Any] = Paginator(first.union(*others, all=True).order_by("when", "kind", "id"), PAGE).get_page(number)
    order = list(found.object_list)
    entries = {}
    for kind, (rows, _, tell) in enumerate(kinds):
        named = [pk for _, of, pk in order if of == kind]
        for row in _shown(rows, named) if named else ():
            entries[kind, row.pk] = tell(row)
    return found, [entries[kind, pk] for _, kind, pk in order if (kind, pk) in entries]


def _in_time(rows: QuerySet[Any], at: str, kind: int) -> QuerySet[Any, Any]:
    placed = rows.select_related(None).order_by().annotate(when=F(at), kind=Value(kind, IntegerField()))
    told: QuerySet[Any, Any] = placed.values_list("when", "kind", "id")
    return told


def _shown(rows: QuerySet[Any], named: Iterable[int]) -> Iterator[Model]:
    """Bodies can be large: no more of them leaves the database than is shown."""
    chosen = rows.filter(pk__in=named)
    if rows.model is Receipt:
        chosen = chosen.defer("body").annotate(start=Substr("body", 1, BODY), kept=Length("body"))
    yield from chosen


def _attempts(operation: Operation) -> tuple[QuerySet[Any], str, Any]:
    return Attempt.objects.using(database.alias()).filter(operation=operation), "passed_at", _attempt


def _receipts(operation: Operation) -> tuple[QuerySet[Any], str, Any]:
    rows = Receipt.objects.using(database.alias()).filter(operation=operation).select_related("attempt", "by")
    return rows, "seen_at", _receipt


def _decisions(operation: Operation) -> tuple[QuerySet[Any], str, Any]:
    """Refusals of the gate, and that it was to be cancelled."""
    told = [Decided.REFUSE, Decided.CANCEL]
    rows = Decision.objects.using(database.alias()).filter(operation=operation, verb__in=told, effect=Effect.APPLIED)
    return rows.select_related("by"), "at", _decision


def _calls(operation: Operation) -> tuple[QuerySet[Any], str, Any]:
    return Call.objects.using(database.alias()).filter(operation=operation), "at", _call


def _attempt(row: Attempt) -> Entry:
    text = gettext(evidence_words.PASSED[Verb(row.verb)]) % {"number": row.number, "run": row.run}
    until = row.lease_until if row.verb == Verb.SUBMIT else None
    return Entry("attempt", row.passed_at, text, by=row.sender, until=until, ref=row.ref[:TEXT])


def _receipt(row: Any) -> Entry:
    claim, source = Claim(row.claim), Source(row.source)
    about_cancel = row.attempt is not None and row.attempt.verb == Verb.CANCEL
    if about_cancel and claim in captions.CANCEL_ANSWERS:
        text = captions.CANCEL_ANSWERS[claim]
    else:
        text = sentences.RECEIPTS.get((claim, source), captions.HEARD)
    return Entry(
        "receipt",
        row.seen_at,
        gettext(text),
        source=gettext(evidence_words.SOURCES[source]),
        by=name_of(row.by),
        attempt=row.attempt.number if row.attempt is not None and not about_cancel else None,
        asked_at=row.asked_at if row.asked_at != row.seen_at else None,
        provider_at=row.provider_at,
        ref=row.ref[:TEXT],
        said=_said(row),
    )


def _said(row: Any) -> Said | None:
    if row.form == Form.ERASED:
        text = gettext(evidence_words.ERASED)
        return Said(text, len(text), row.size, cut=False)
    return Said(row.start, row.kept, row.size, row.cut) if row.start else None


def _decision(row: Decision) -> Entry:
    if row.verb == Decided.REFUSE:
        text = gettext(sentences.REFUSALS.get(row.reason, sentences.REFUSALS["refused"]))
        return Entry("refused", row.at, text, count=row.count)
    text = gettext(evidence_words.CANCEL_ASKED)
    return Entry("cancel", row.at, text, by=name_of(row.by) or row.policy, reason=row.reason[:TEXT])


def _call(row: Call) -> Entry:
    texts = {
        CallOutcome.ACCEPTED: sentences.TAKEN_IN,
        CallOutcome.IGNORED: sentences.KEPT_OUT,
        CallOutcome.FAILED: evidence_words.FAILED_CALL,
    }
    text = gettext(texts[CallOutcome(row.outcome)]) % {"run": row.run}
    return Entry("call", row.at, text)  # its error may repeat what was said with its secrets
