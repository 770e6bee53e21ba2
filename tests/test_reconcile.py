"""Reconciling: due rows are cancelled and looked up until they are final, by any number of workers, without effects.

R20, R21.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import conf, reconcile, request, sending
from agentstop.exceptions import TaskNotFound
from agentstop.gate import open_gate
from agentstop.models import Decision, Operation, Receipt
from agentstop.runs import Run, begin
from agentstop.states import Cancellation, OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.observed import claims, of_key
from tests.passing import let_pass

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 3000  # seconds: longer than any back-off, shorter than the time for which a cancel is tried

AtWork = Callable[..., Run]


@pytest.fixture
def at_work(sandbox: SandboxClient, in_thread: InThread, ann: User) -> AtWork:
    """A stopped run whose reports the provider has accepted and is held from making; nobody waits for them any more."""

    def at_work(*keys: str, **switches: Any) -> Run:
        run = begin("reports", owner=ann)
        sandbox.hold("working")
        for key in keys:
            args = {"text": key, "seconds": 0, "sandbox": switches}
            in_thread(run.call, "report.create", args, connector="sandbox", key=key)
        sandbox.wait("working", count=len(keys))
        stop(run.task_id)
        sending.close()
        return run

    return at_work


def counts(sandbox: SandboxClient, key: str) -> dict[str, int]:
    return sandbox.counts(str(Operation.objects.get(key=key).idempotency_key))


def read_back() -> int:
    """How many look-ups have told something."""
    return Receipt.objects.filter(source="read_back").count()


def wait_of(key: str) -> timedelta:
    """How long after what was heard last it is due again."""
    operation = Operation.objects.get(key=key)
    assert operation.follow_up_at is not None
    return operation.follow_up_at - Receipt.objects.filter(operation=operation).latest("pk").seen_at


def test_nothing_is_due_where_nothing_was_sent(transactional_db: None) -> None:
    begin("a task")
    assert (reconcile.work(), reconcile.next_due(), reconcile.overdue()) == (0, None, 0)


def test_a_stop_makes_cancels_due_at_once_and_a_turn_takes_no_more_than_it_is_told(
    at_work: AtWork, sandbox: SandboxClient
) -> None:
    at_work("a", "b", "c")
    assert reconcile.next_due() is not None
    assert [reconcile.work(limit=2), reconcile.work(limit=2), reconcile.work(limit=2)] == [2, 1, 0]
    assert [effect["state"] for effect in sandbox.ledger()["effects"]] == ["cancelled"] * 3
    assert reconcile.next_due() is None  # what is final is never due again


def test_a_cancel_that_failed_there_is_tried_again_with_growing_waits(at_work: AtWork, sandbox: SandboxClient) -> None:
    run = at_work("k", cancel_error=3)
    waits: list[timedelta] = []
    for base in (2.0, 4.0, 8.0):  # doubled each time, give or take the jitter of a quarter
        assert reconcile.work() == 1
        assert of_key(run.task_id, "k").cancellation is Cancellation.REQUESTED
        waits.append(wait_of("k"))  # seen a moment before or after the time from which the wait is counted
        assert timedelta(seconds=base / 2) <= waits[-1] <= timedelta(seconds=base * 1.5)
        assert reconcile.work() == 0
        let_pass(run.task_id, 20)
    assert reconcile.work() == 1
    assert of_key(run.task_id, "k").state is OperationState.CANCELLED
    assert waits[0] < waits[1] < waits[2]
    assert counts(sandbox, "k")["cancels"] == 4


def test_a_cancel_that_was_refused_is_not_tried_again_and_the_effect_is_looked_up(
    at_work: AtWork, sandbox: SandboxClient
) -> None:
    run = at_work("k", refuse_cancel=True)
    for _ in range(3):
        assert reconcile.work() == 1
        assert of_key(run.task_id, "k").cancellation is Cancellation.REFUSED
        let_pass(run.task_id, 20)
    assert counts(sandbox, "k") == {"submits": 1, "reads": 3, "cancels": 1, "writes": 0}


def test_looking_up_writes_nothing_and_waits_longer_each_time(at_work: AtWork, sandbox: SandboxClient) -> None:
    """R20, R21."""
    run = at_work("k", refuse_cancel=True)
    waits = []
    for _ in range(6):
        assert reconcile.work() == 1
        waits.append(wait_of("k"))
        let_pass(run.task_id, waits[-1].total_seconds() + 1)
    assert waits[-1] > 4 * waits[0]
    assert counts(sandbox, "k") == {"submits": 1, "reads": 6, "cancels": 1, "writes": 0}
    sandbox.release("working")
    sandbox.settled("k")
    assert reconcile.work() == 1
    assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED
    assert counts(sandbox, "k")["writes"] == 1
    assert run.context() == []


def test_a_look_up_that_fails_is_due_again(at_work: AtWork, sandbox: SandboxClient) -> None:
    run = at_work("k", refuse_cancel=True, look_up_error=2)
    for _ in range(2):
        assert reconcile.work() == 1
        assert read_back() == 0
        let_pass(run.task_id, LONG)
    assert reconcile.work() == 1
    assert read_back() == 1


def test_workers_share_what_is_due_without_asking_twice(
    at_work: AtWork, sandbox: SandboxClient, in_thread: InThread
) -> None:
    keys = [f"k{number}" for number in range(8)]
    run, ready = at_work(*keys), threading.Barrier(4, timeout=HANG_GUARD)

    def worker() -> int:
        ready.wait()
        done = 0
        while (took := reconcile.work(limit=2)) > 0:
            done += took
        return done

    assert sum(each.result(HANG_GUARD) for each in [in_thread(worker) for _ in range(4)]) == len(keys)
    for key in keys:
        assert counts(sandbox, key)["cancels"] == 1
        assert of_key(run.task_id, key).state is OperationState.CANCELLED


def test_what_a_worker_had_taken_when_it_died_is_due_again_after_its_lease(
    at_work: AtWork, sandbox: SandboxClient
) -> None:
    """R22."""
    run = at_work("k")
    assert len(reconcile._claim(50, None)) == 1  # and then it is gone
    assert reconcile.work() == 0
    let_pass(run.task_id, 2 * conf.DEADLINE + conf.LEASE_MARGIN + 1)
    assert reconcile.work() == 1
    assert of_key(run.task_id, "k").state is OperationState.CANCELLED
    assert counts(sandbox, "k")["cancels"] == 1


def test_a_worker_that_dies_amid_a_cancel_leaves_a_request_that_is_repeated(
    at_work: AtWork, sandbox: SandboxClient
) -> None:
    run = at_work("k")
    (due,) = reconcile._claim(50, None)
    assert len(reconcile._begin_cancel(due.operation.pk)) == 1  # recorded, perhaps sent, and then it is gone
    assert of_key(run.task_id, "k").cancellation is Cancellation.SENT
    assert reconcile._begin_cancel(due.operation.pk) == []  # while that may be on its way
    let_pass(run.task_id, 2 * conf.DEADLINE + conf.LEASE_MARGIN + 1)
    assert reconcile.work() == 1
    assert of_key(run.task_id, "k").state is OperationState.CANCELLED


def test_a_dead_sender_is_noticed_and_looked_up_in_the_same_turn(sandbox: SandboxClient, ann: User) -> None:
    """R22."""
    run = begin("a task", owner=ann)
    wish = request.make(run.task_id, run.number, "notify.post", {}, {"connector": "sandbox", "key": "k"})
    open_gate(wish)  # and then its process is gone
    assert reconcile.work() == 0
    let_pass(run.task_id, 60)
    assert reconcile.work() == 1
    seen = of_key(run.task_id, "k")
    assert (seen.state, claims(seen.operation.pk)) == (OperationState.NOT_SENT, [("not_found", "read_back")])


def test_where_nobody_works_the_rows_that_shows(at_work: AtWork, sandbox: SandboxClient) -> None:
    """R21."""
    run = at_work("a", "b")
    assert reconcile.overdue() == 0
    let_pass(run.task_id, 61)
    assert reconcile.overdue() == 2
    reconcile.work()
    assert reconcile.overdue() == 0


def test_a_person_may_want_to_know_now(
    at_work: AtWork, sandbox: SandboxClient, ann: User, ben: User, olga: User
) -> None:
    run = at_work("k")
    operation = Operation.objects.get().pk
    assert reconcile.look_up_now(operation, by=ann)
    assert reconcile.look_up_now(operation, by=olga)
    assert read_back() == 2
    with pytest.raises(TaskNotFound):
        reconcile.look_up_now(operation, by=ben)
    with pytest.raises(TaskNotFound):
        reconcile.look_up_now(10**9, by=ann)
    asked = Decision.objects.filter(task=run.task_id, verb="look_up").order_by("pk")
    assert list(asked.values_list("by", "effect")) == [
        (ann.pk, "applied"),
        (olga.pk, "applied"),
        (ben.pk, "denied"),
    ]
    assert counts(sandbox, "k")["reads"] == 2


def test_what_nobody_can_be_asked_about_is_not_looked_up(sandbox: SandboxClient, ann: User) -> None:
    run = begin("a task", owner=ann)
    with run.dispatch("notify.blind", {"text": "k"}, connector="sandbox", key="k") as op:
        op.lost("no answer")
    assert not reconcile.look_up_now(op.id, by=ann)
    let_pass(run.task_id, LONG)
    assert reconcile.work() == 0
    assert of_key(run.task_id, "k").state is OperationState.UNKNOWN
