"""What was heard of operations in words: beginnings of answers, progress, a person's word, whose result each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import IntegerField, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Left

from agentstop import database
from agentstop.bodies import Form
from agentstop.composed import Composed
from agentstop.models import Call, Decision, Operation, Receipt
from agentstop.models.facts import CallOutcome, Decided
from agentstop.states import FINAL_CLAIMS, Claim, OperationFacts, Source

HEAD = 2000  # characters of a result that are looked at for an address
ENDS = (Claim.SUCCEEDED, Claim.FAILED, Claim.REFUSED)


@dataclass(frozen=True, slots=True)
class Result:
    """The beginning of what a provider said when it ended."""

    claim: Claim
    head: str
    form: Form
    whole: bool


@dataclass(frozen=True, slots=True)
class Word:
    """The last word of a person who settled it by hand, and the beginning of the reason."""

    receipt: Receipt
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
    """How far a provider says that it is, from 0 to 1, and when that was heard."""

    fraction: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """What its runs got for their requests, and the gate's last refusal (its `reason`)."""

    refusal: str = ""
    taken_by: int | None = None  # the last run that took the result in
    kept_from: int | None = None  # the last run that asked and was over


NOT_ASKED = Asked()


def asked(rows: Sequence[Operation]) -> Mapping[int, Asked]:
    """Why the gate last refused each of them, and whose result each is; in one query."""
    if not rows:
        return {}
    found: dict[int, Asked] = {}
    answers: list[Any] = _ANSWERS.rows([row.pk for row in rows], database.alias())
    for pk, word, run, _ in sorted(answers, key=lambda row: row[-1]):
        was = found.get(pk, NOT_ASKED)
        if run is None:
            found[pk] = replace(was, refusal=word)
        elif word == CallOutcome.ACCEPTED:
            found[pk] = replace(was, taken_by=run)
        else:
            found[pk] = replace(was, kept_from=run)
    return found


def _answers(operations: Sequence[int]) -> QuerySet[Any, Any]:
    refused = Decision.objects.filter(operation__in=operations, verb=Decided.REFUSE).order_by()
    called = Call.objects.filter(operation__in=operations).exclude(outcome=CallOutcome.FAILED).order_by()
    nothing = Value(None, output_field=IntegerField())
    refusals = refused.annotate(got=nothing).values_list("operation_id", "reason", "got", "pk")
    return refusals.union(called.values_list("operation_id", "outcome", "run", "pk"), all=True)


_ANSWERS = Composed(_answers)


def heads(
    rows: Sequence[Operation],
) -> tuple[Mapping[int, Result], Mapping[int, Share], Mapping[int, Word]]:
    """The last word of each of them that ended, how far each was heard to be, and a person's last word about each.

    Only beginnings are read, since a result may be large; and one progress of each, since there may be thousands.
    """
    results: dict[int, Result] = {}
    shares: dict[int, Share] = {}
    settled: dict[int, Word] = {}
    for receipt in _WORDS.rows([row.pk for row in rows], database.alias()):
        pk, claim, head = receipt.operation_id, Claim(receipt.claim), receipt.head
        if receipt.source == Source.PERSON and claim in FINAL_CLAIMS:
            settled[pk] = Word(receipt, head[:HEAD])
        if claim in ENDS:
            results[pk] = Result(claim, head[:HEAD], Form(receipt.form), len(head) <= HEAD)
        elif claim is Claim.PROGRESS and (share := _share(head)) is not None:
            shares[pk] = Share(share, receipt.seen_at)
    return results, shares, settled


def _words(operations: Sequence[int]) -> QuerySet[Any]:
    progress = Receipt.objects.filter(operation=OuterRef("pk"), claim=Claim.PROGRESS)
    last = progress.order_by("-seen_at", "-pk").values("pk")[:1]
    newest = Operation.objects.filter(pk__in=operations).annotate(last=Subquery(last))
    by_hand = Q(source=Source.PERSON, claim__in=FINAL_CLAIMS)
    wanted = Q(claim__in=ENDS) | by_hand | Q(pk__in=newest.values("last"))
    receipts = Receipt.objects.filter(wanted, operation__in=operations).select_related("by").defer("body")
    words: QuerySet[Any] = receipts.annotate(head=Left("body", HEAD + 1)).order_by("seen_at", "pk")
    return words


_WORDS = Composed(_words)


def _share(body: str) -> float | None:
    try:
        found = float(body)
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None


def of_the_last_attempt(share: Share | None, facts: OperationFacts) -> Share | None:
    """How far an earlier attempt was says nothing of a later one."""
    passed = max((attempt.passed_at for attempt in facts.attempts), default=None)
    return share if share is not None and (passed is None or share.at >= passed) else None
