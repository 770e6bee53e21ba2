"""That the one query over four tables reads what the tables hold, told by the ORM, on either database (R36)."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import Min

from agentstop import database, request
from agentstop.facts import facts_of
from agentstop.gate import open_gate
from agentstop.models import Attempt, Decision, Operation, Receipt
from agentstop.passes import Pass
from agentstop.runs import Run, begin
from agentstop.states import CancelFacts, Claim, Source, Verb

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def passed(run: Run, key: str) -> Pass:
    found = open_gate(request.make(run.task_id, run.number, "write", {}, {"connector": "tools", "key": key}))
    assert isinstance(found, Pass)
    return found


def add_facts(operation: int, attempt: int, lot: random.Random) -> None:
    """A heap of facts, whatever they mean together."""
    start = database.now()

    def moment() -> datetime:
        return start + timedelta(microseconds=lot.randrange(10**9))

    for _ in range(lot.randrange(4)):
        asked = moment()
        Receipt.objects.create(
            operation_id=operation,
            attempt_id=lot.choice([None, attempt]),
            claim=lot.choice(list(Claim)),
            source=lot.choice(list(Source)),
            asked_at=asked,
            seen_at=asked + timedelta(seconds=lot.randrange(3)),
            ref=lot.choice(["", "r-1", "größer ✓"]),
            body="not a part of the fold",
            authoritative=lot.choice([True, False]),
            provider_at=lot.choice([None, moment()]),
        )
    for number, verb in enumerate(lot.choices(["cancel", "refuse", "look_up"], k=lot.randrange(4))):
        Decision.objects.create(
            task=Operation.objects.get(pk=operation).task,
            operation_id=operation,
            verb=verb,
            effect=lot.choice(["applied", "noted"]),
            reason=str(number),
            until=lot.choice([None, moment()]),
            detail=lot.choice([{}, {"possible": False, "needs_ref": True}]),
            at=moment(),
        )
    for number in range(1, lot.randrange(1, 4)):
        Attempt.objects.create(
            operation_id=operation,
            verb=Verb.CANCEL,
            number=number,
            passed_at=moment(),
            lease_until=moment(),
            settling=timedelta(0),
            max_age=timedelta(0),
        )


def told_by_the_orm(operation: int) -> dict[str, Any]:
    receipts = Receipt.objects.filter(operation=operation)
    submits = Attempt.objects.filter(operation=operation, verb=Verb.SUBMIT)
    numbers = dict(submits.values_list("pk", "number"))
    undone = Attempt.objects.filter(operation__compensates=operation, verb=Verb.SUBMIT)
    return {
        "attempts": set(submits.values_list("number", "passed_at", "lease_until", "settling", "max_age")),
        "receipts": {
            (*_seen(r), numbers.get(r.attempt_id or 0), r.ref, r.authoritative, r.provider_at, r.pk) for r in receipts
        },
        "refused": Decision.objects.filter(operation=operation, verb="refuse").exists(),
        "compensated_at": undone.aggregate(first=Min("passed_at"))["first"],
    }


def _seen(receipt: Any) -> tuple[Any, ...]:
    return receipt.claim, receipt.source, receipt.asked_at, receipt.seen_at


def read_at_once(operation: Operation, unsaved: list[Receipt]) -> dict[str, Any]:
    facts = facts_of([operation], unsaved)[operation.pk]
    return {
        "attempts": {(a.number, a.passed_at, a.lease_until, a.settling, a.max_age) for a in facts.attempts},
        "receipts": {(*_seen(r), r.attempt, r.ref, r.authoritative, r.provider_at, r.id) for r in facts.receipts},
        "refused": facts.refused,
        "compensated_at": facts.compensated_at,
    }


@pytest.mark.parametrize("seed", range(12))
def test_one_query_reads_what_the_orm_reads(seed: int) -> None:
    lot, run = random.Random(seed), begin("a task")  # noqa: S311  a heap of rows, no secret
    first, undo = passed(run, "first"), passed(run, "undo")
    if lot.random() < 0.5:
        Operation.objects.filter(pk=undo.operation).update(compensates=first.operation)
    for each in (first, undo):
        add_facts(each.operation, each.attempt_id, lot)
        operation = Operation.objects.get(pk=each.operation)
        assert read_at_once(operation, []) == told_by_the_orm(operation.pk)


def test_a_cancel_request_is_read_with_its_tries_and_their_answers() -> None:
    one, now = passed(begin("a task"), "k"), database.now()
    operation = Operation.objects.get(pk=one.operation)
    assert facts_of([operation])[operation.pk].cancel == CancelFacts()
    detail = {"possible": True, "needs_ref": True}
    until = now + timedelta(hours=1)
    Decision.objects.create(
        task=operation.task, operation=operation, verb="cancel", effect="applied", until=until, detail=detail, at=now
    )
    spans = {"settling": timedelta(0), "max_age": timedelta(0)}
    attempt = Attempt.objects.create(
        operation=operation, verb=Verb.CANCEL, number=1, passed_at=now, lease_until=until, **spans
    )
    Receipt.objects.create(
        operation=operation, attempt=attempt, claim=Claim.CANCELLED, source=Source.ACK, asked_at=now, seen_at=now
    )
    cancel = facts_of([operation])[operation.pk].cancel
    assert (cancel.asked_at, cancel.until, cancel.possible, cancel.needs_ref) == (now, until, True, True)
    assert [(each.number, each.lease_until) for each in cancel.tries] == [(1, until)]
    assert [(each.claim, each.attempt) for each in cancel.answers] == [(Claim.CANCELLED, 1)]


def test_a_receipt_that_is_about_to_be_stored_counts_as_one_that_is() -> None:
    one, now = passed(begin("a task"), "k"), database.now()
    operation = Operation.objects.get(pk=one.operation)
    receipt = Receipt(
        operation=operation,
        attempt_id=one.attempt_id,
        claim=Claim.SUCCEEDED,
        source=Source.PROVIDER,
        asked_at=now,
        seen_at=now,
    )
    unsaved = read_at_once(operation, [receipt])
    receipt.save()
    [before], [after] = unsaved["receipts"], read_at_once(operation, [])["receipts"]
    assert before[:-1] == after[:-1]  # but for the id, which it had not


def test_the_facts_of_more_operations_than_one_query_takes_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentstop.database.BATCH", 2)
    run = begin("a task")
    operations = [Operation(pk=passed(run, f"k{number}").operation) for number in range(5)]
    facts = facts_of(operations)
    assert [len(facts[operation.pk].attempts) for operation in operations] == [1] * 5
    assert facts_of([]) == {}
