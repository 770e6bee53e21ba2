"""That a receipt, what it folds to and what is admitted of it are stored together, once, in few statements.

R15, R36.
"""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agentstop import bodies, request, settle, storing
from agentstop.gate import open_gate
from agentstop.models import Call, ContextEntry, Operation, Receipt
from agentstop.models.facts import CallOutcome
from agentstop.passes import Pass
from agentstop.runs import Run, begin
from agentstop.settle import Admission, Heard
from agentstop.states import Claim, OperationState, Source
from agentstop.stop import stop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


@pytest.fixture
def run(tools: None, transactional_db: None) -> Run:
    return begin("a task")


def passed(run: Run, key: str = "k") -> Pass:
    found = open_gate(request.make(run.task_id, run.number, "write", {}, {"connector": "tools", "key": key}))
    assert isinstance(found, Pass)
    return found


def done(one: Pass, text: str = "") -> Heard:
    body = bodies.store(text)
    return Heard(Claim.SUCCEEDED, Source.PROVIDER, one.passed_at, one.attempt_id, ref="r-1", body=body)


def test_a_receipt_is_stored_with_its_fold_its_call_and_its_entry(run: Run) -> None:
    one = passed(run)
    settled = settle.record(one.operation, [done(one, "größer ✓")], admission=Admission(run.number))
    assert (settled.state, settled.outcome) == (OperationState.SUCCEEDED, CallOutcome.ACCEPTED)
    operation, receipt = Operation.objects.get(), Receipt.objects.get()
    call, entry = Call.objects.get(), ContextEntry.objects.get()
    assert (operation.state, operation.ref, operation.state_since) == ("succeeded", "r-1", receipt.seen_at)
    assert (receipt.operation_id, receipt.attempt_id, receipt.body) == (one.operation, one.attempt_id, "größer ✓")
    assert (call.run, call.outcome, call.admitted_at) == (run.number, "accepted", receipt.seen_at)
    assert (entry.call_id, entry.task_id, entry.value) == (call.pk, run.task_id, "größer ✓")


def test_a_result_is_admitted_to_a_run_once_however_often_it_arrives(run: Run) -> None:
    one, other = passed(run), passed(run, "other")
    settle.record(other.operation, [done(other)], admission=Admission(run.number))
    for _ in range(3):
        settled = settle.record(one.operation, [done(one, "result")], admission=Admission(run.number))
        assert settled.outcome == CallOutcome.ACCEPTED
    assert settle.admit_replay(one.operation, run.number)[0].outcome == CallOutcome.ACCEPTED
    assert Receipt.objects.filter(operation=one.operation).count() == 3
    assert Call.objects.filter(operation=one.operation).count() == 1
    assert run.context() == ["", "result"]


def test_of_a_run_that_is_over_the_receipt_is_kept_and_nothing_admitted(run: Run) -> None:
    one = passed(run)
    stop(run.task_id)
    for _ in range(2):
        settled = settle.record(one.operation, [done(one)], admission=Admission(run.number))
        assert (settled.state, settled.outcome) == (OperationState.SUCCEEDED, CallOutcome.IGNORED)
    assert list(Call.objects.values_list("outcome", "admitted_at")) == [("ignored", None)] * 2
    assert not ContextEntry.objects.exists()


def test_several_pieces_of_evidence_are_stored_in_their_order(run: Run) -> None:
    one = passed(run)
    accepted = Heard(Claim.ACCEPTED, Source.PROVIDER, one.passed_at, one.attempt_id)
    assert settle.record(one.operation, [accepted, done(one)]).state == OperationState.SUCCEEDED
    assert list(Receipt.objects.order_by("pk").values_list("claim", flat=True)) == ["accepted", "succeeded"]
    assert not Call.objects.exists()


def test_an_operation_that_is_not_there_is_named() -> None:
    with pytest.raises(Operation.DoesNotExist, match="There is no operation 4711"):
        settle.record(4711, [])


def test_a_receipt_costs_three_statements_on_postgresql_whatever_is_admitted(run: Run) -> None:
    first, one = passed(run, "first"), passed(run)
    settle.record(first.operation, [done(first)], admission=Admission(run.number))  # reads what the process keeps
    with CaptureQueriesContext(connection) as caught:
        settle.record(one.operation, [done(one)], admission=Admission(run.number))
    verbs = [query["sql"].split()[0] for query in caught.captured_queries]
    told = [verb for verb in verbs if verb not in {"BEGIN", "COMMIT"}]
    if connection.vendor == "postgresql":
        assert told == ["WITH", "SELECT", "WITH"]
    else:  # one file, no round trips
        assert told == ["WITH", "SELECT", "INSERT", "UPDATE", "INSERT", "INSERT"]


@pytest.mark.parametrize("with_task", [False, True])
def test_the_locked_operation_is_the_one_that_the_orm_reads(run: Run, with_task: bool) -> None:
    one = passed(run)
    settle.record(one.operation, [done(one)])
    with transaction.atomic():
        locked = storing.locked(one.operation, with_task=with_task)
    stored = Operation.objects.get()
    told = {field.attname: getattr(locked.operation, field.attname) for field in Operation._meta.concrete_fields}
    assert told == {field.attname: getattr(stored, field.attname) for field in Operation._meta.concrete_fields}
    assert [type(value) for value in told.values()] == [type(getattr(stored, name)) for name in told]
    assert (locked.task_state, locked.live_run) == ("active", run.number)
    assert locked.now > stored.folded_at
