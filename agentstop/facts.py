"""Reads the facts of operations out of the tables, in the form that the fold takes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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

# One query and not four: every receipt is folded while its operation is locked. `undoing`: requests to compensate it
# that may have had their effect, since none is proven not to have left or to have been turned down.
FACTS = """
SELECT 'attempt', operation_id, id, verb, number, CAST(NULL AS bigint), passed_at, lease_until, settling, max_age,
  CAST(NULL AS varchar(20)), ref, CAST(NULL AS boolean), CAST(NULL AS timestamp with time zone)
FROM {attempt} WHERE operation_id IN ({ids})
UNION ALL
SELECT 'receipt', operation_id, id, claim, NULL, attempt_id, asked_at, seen_at, NULL, NULL,
  source, ref, authoritative, provider_at
FROM {receipt} WHERE operation_id IN ({ids})
UNION ALL
SELECT 'decision', operation_id, id, verb, NULL, NULL, at, until, NULL, NULL,
  effect, CAST(detail AS text), NULL, NULL
FROM {decision} WHERE operation_id IN ({ids}) AND verb IN ('cancel', 'refuse')
UNION ALL
SELECT 'undoing', undo.compensates_id, sent.id, verb, number, NULL, passed_at, sent.lease_until, NULL, NULL,
  NULL, NULL, NULL, NULL
FROM {operation} AS undo JOIN {attempt} AS sent ON sent.operation_id = undo.id
WHERE undo.compensates_id IN ({ids}) AND sent.verb = 'submit' AND (
  NOT EXISTS (SELECT 1 FROM {receipt} AS no WHERE no.attempt_id = sent.id AND (
    no.claim = 'unsent' AND no.source IN ('sender', 'provider') OR no.claim = 'refused' AND no.source = 'provider'))
  OR EXISTS (SELECT 1 FROM {receipt} AS yes WHERE yes.operation_id = undo.id
    AND yes.claim IN ('accepted', 'running', 'progress', 'succeeded') AND yes.source IN ('provider', 'read_back')))
"""


@dataclass
class _Rows:
    """What was read about one operation, as objects that are never saved."""

    attempts: list[Attempt] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    undone_at: list[datetime] = field(default_factory=list)


def facts_of(operations: Sequence[Operation], unsaved: Sequence[Receipt] = ()) -> dict[int, OperationFacts]:
    """The facts of these operations by id, together with receipts that are about to be stored."""
    ids = [operation.pk for operation in operations]
    rows: dict[int, _Rows] = defaultdict(_Rows)
    for batch in database.batches(ids):
        _read(batch, rows)
    for receipt in unsaved:
        rows[receipt.operation_id].receipts.append(receipt)
    return {pk: _facts(rows[pk]) for pk in ids}


def _read(ids: Sequence[int], rows: dict[int, _Rows]) -> None:
    tables = {str(model._meta.model_name): model._meta.db_table for model in (Attempt, Receipt, Decision, Operation)}
    sql = FACTS.format(**tables, ids=", ".join(["%s"] * len(ids)))
    with database.connection().cursor() as cursor:
        cursor.execute(sql, [*ids] * 4)
        for kind, operation, *values in cursor.fetchall():
            _add(rows[operation], kind, *values)


def _add(
    rows: _Rows,
    kind: str,
    pk: int,
    word: str,
    number: int,
    attempt: int | None,
    at: Any,
    until: Any,
    settling: Any,
    max_age: Any,
    source: str,
    text: str,
    authoritative: Any,
    provider_at: Any,
) -> None:
    """One row of FACTS, whichever kind it is of; `at` and `until` are the two times that each kind has."""
    at, until = database.moment(at), database.moment(until)
    if kind == "attempt":
        spans = {"settling": database.duration(settling), "max_age": database.duration(max_age)}
        told = {"passed_at": at, "lease_until": until, "ref": text}
        rows.attempts.append(Attempt(id=pk, verb=word, number=number, **told, **spans))
    elif kind == "receipt":
        provider_at = database.moment(provider_at)
        worth = {"authoritative": bool(authoritative), "provider_at": provider_at}
        told = {"attempt_id": attempt, "asked_at": at, "seen_at": until, "ref": text}
        rows.receipts.append(Receipt(id=pk, claim=word, source=source, **told, **worth))
    elif kind == "decision":
        rows.decisions.append(Decision(id=pk, verb=word, effect=source, at=at, until=until, detail=json.loads(text)))
    else:
        rows.undone_at.append(at)


def _facts(rows: _Rows) -> OperationFacts:
    submits = [attempt for attempt in rows.attempts if attempt.verb == Verb.SUBMIT]
    numbers = {attempt.pk: attempt.number for attempt in submits}
    about = [r for r in rows.receipts if r.attempt_id is None or r.attempt_id in numbers or r.source == Source.ACK]
    return OperationFacts(
        attempts=tuple(AttemptFact(a.number, a.passed_at, a.lease_until, a.settling, a.max_age) for a in submits),
        receipts=tuple(_receipt(receipt, numbers) for receipt in about),
        refused=any(decision.verb == Decided.REFUSE for decision in rows.decisions),
        compensated_at=min(rows.undone_at, default=None),
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
        id=receipt.pk or 0,  # one that is about to be stored has none
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
        tries=tuple(CancelTry(attempt.number, attempt.lease_until, attempt.ref) for attempt in tries),
        answers=tuple(
            CancelAnswer(Claim(receipt.claim), numbers[receipt.attempt_id])
            for receipt in rows.receipts
            if receipt.attempt_id in numbers
        ),
    )
