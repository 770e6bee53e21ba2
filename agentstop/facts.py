"""Reads the facts of operations out of the tables, in the form that the fold takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Min

from agentstop import database
from agentstop.models import Attempt, Decision, Operation, Receipt
from agentstop.models.facts import Decided, Effect
from agentstop.states import (
    AttemptFact,
    CancelAnswer,
    CancelFacts,
    CancelTry,
    Claim,
    OperationFacts,
    ReceiptFact,
    Source,
    Verb,
)


@dataclass
class _Rows:
    attempts: list[Attempt] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


def facts_of(operations: Sequence[Operation]) -> dict[int, OperationFacts]:
    """The facts of these operations by id, in four queries."""
    ids = [operation.pk for operation in operations]
    rows: dict[int, _Rows] = defaultdict(_Rows)
    using = database.alias()
    for attempt in Attempt.objects.using(using).filter(operation__in=ids):
        rows[attempt.operation_id].attempts.append(attempt)
    for receipt in Receipt.objects.using(using).filter(operation__in=ids).defer("body"):
        rows[receipt.operation_id].receipts.append(receipt)
    verbs = [Decided.CANCEL, Decided.REFUSE]
    for decision in Decision.objects.using(using).filter(operation__in=ids, verb__in=verbs):
        if decision.operation_id is not None:
            rows[decision.operation_id].decisions.append(decision)
    undone = _compensated_at(ids)
    return {pk: _facts(rows[pk], undone.get(pk)) for pk in ids}


def _compensated_at(ids: Sequence[int]) -> dict[int, datetime]:
    """When the first request to undo each of them was let go."""
    passes = Attempt.objects.using(database.alias()).filter(operation__compensates__in=ids, verb=Verb.SUBMIT)
    first = passes.values("operation__compensates").annotate(first=Min("passed_at"))
    return {pk: moment for pk, moment in first.values_list("operation__compensates", "first") if pk is not None}


def _facts(rows: _Rows, compensated_at: datetime | None) -> OperationFacts:
    submits = [attempt for attempt in rows.attempts if attempt.verb == Verb.SUBMIT]
    numbers = {attempt.pk: attempt.number for attempt in submits}
    about = [r for r in rows.receipts if r.attempt_id is None or r.attempt_id in numbers or r.source == Source.ACK]
    return OperationFacts(
        attempts=tuple(AttemptFact(a.number, a.passed_at, a.lease_until, a.settling, a.max_age) for a in submits),
        receipts=tuple(_receipt(receipt, numbers) for receipt in about),
        refused=any(decision.verb == Decided.REFUSE for decision in rows.decisions),
        compensated_at=compensated_at,
        cancel=_cancel(rows, submits),
    )


def _receipt(receipt: Receipt, numbers: dict[int, int]) -> ReceiptFact:
    return ReceiptFact(
        claim=Claim(receipt.claim),
        source=Source(receipt.source),
        asked_at=receipt.asked_at,
        seen_at=receipt.seen_at,
        attempt=numbers.get(receipt.attempt_id) if receipt.attempt_id is not None else None,
        ref=receipt.ref,
        authoritative=receipt.authoritative,
        provider_at=receipt.provider_at,
        id=receipt.pk,
    )


def _cancel(rows: _Rows, submits: list[Attempt]) -> CancelFacts:
    """A request to cancel covers what had left before it: a later attempt is a new wish, and starts clean."""
    since = max((attempt.passed_at for attempt in submits), default=None)
    asked = [
        decision
        for decision in rows.decisions
        if decision.verb == Decided.CANCEL
        and decision.effect == Effect.APPLIED
        and (since is None or decision.at >= since)
    ]
    if not asked:
        return CancelFacts()
    first, last = min(asked, key=lambda d: (d.at, d.pk)), max(asked, key=lambda d: (d.at, d.pk))
    tries = [a for a in rows.attempts if a.verb == Verb.CANCEL and a.passed_at >= first.at]
    numbers = {attempt.pk: attempt.number for attempt in tries}
    return CancelFacts(
        asked_at=first.at,
        until=max((decision.until for decision in asked if decision.until is not None), default=None),
        possible=bool(last.detail.get("possible", True)),
        needs_ref=bool(last.detail.get("needs_ref", False)),
        tries=tuple(CancelTry(attempt.number, attempt.lease_until) for attempt in tries),
        answers=tuple(
            CancelAnswer(Claim(receipt.claim), numbers[receipt.attempt_id])
            for receipt in rows.receipts
            if receipt.attempt_id in numbers
        ),
    )
