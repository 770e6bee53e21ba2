"""Several tries of one operation: within one attempt by a client that retries, and attempts whose answers cross.

R8, R10, R15.

A sender asleep past its lease, which sends nothing when it wakes, is in `races/test_killed.py`.
"""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.exceptions import PassExpired
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.barriers import Barrier, held_at
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import Observed, claims
from tests.races.senders import Got
from tests.reports.acts import (
    NOTIFY,
    ask,
    assert_agrees,
    counts,
    long_after,
    operation,
    seen,
    words,
)
from tests.reports.conftest import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)


class RetryingClient:
    """A tool whose client tries again by itself within one attempt, and asks before each try whether it may."""

    def __init__(self, address: str, **switches: Any) -> None:
        self.address, self.switches = address, switches
        self.waiting, self.timer = threading.Event(), threading.Event()

    def __call__(self, op: Dispatched) -> Any:
        while True:
            op.check()
            found = self._try(op.idempotency_key)
            if found is not None:
                return found
            self.waiting.set()
            assert self.timer.wait(HANG_GUARD)

    def _try(self, key: str) -> Any:
        headers = {"Idempotency-Key": key}
        try:
            reply = httpx.post(f"{self.address}/notifications", json=words("job", **self.switches), headers=headers)
        except httpx.TransportError:
            return None
        return reply.json() if reply.status_code == 201 else None


@pytest.mark.parametrize(
    ("switches", "end"),
    [({"drop": True}, Label.COMPLETED_BEFORE), ({"server_error": 1}, Label.NOT_SENT)],
    ids=["the first try had its effect", "the first try had none"],
)
def test_a_client_that_retries_by_itself_is_refused_at_the_second_try_after_the_stop(
    sandbox: SandboxClient, in_thread: InThread, switches: dict[str, Any], end: Label
) -> None:
    """That the second try did not leave proves nothing about the first: it is unknown until it is looked up."""
    run, tool = begin("Notify"), RetryingClient(sandbox.address, **switches)
    caller = in_thread(run.call, NOTIFY, connector="sandbox", key="job", send=tool)
    assert tool.waiting.wait(HANG_GUARD)
    stop(run.task_id, policy="test")
    assert caller.result(HANG_GUARD).ignored
    tool.timer.set()
    sending.close()
    assert counts(sandbox, run, "job")["submits"] == 1
    assert seen(run, "job").label is Label.UNKNOWN
    long_after(run)
    while work():
        pass
    assert seen(run, "job").label is end
    assert counts(sandbox, run, "job")["submits"] == 1
    assert_agrees(sandbox, run)


def test_a_block_that_tried_before_the_stop_proves_nothing_by_its_refusal_after_it(sandbox: SandboxClient) -> None:
    """The same for code that sends by itself: it leaves its block by the refused second try."""
    run = begin("Notify")
    with pytest.raises(PassExpired), run.dispatch(NOTIFY, connector="sandbox", key="job") as op:
        op.check()
        headers = {"Idempotency-Key": op.idempotency_key}
        httpx.post(f"{sandbox.address}/notifications", json=words("job"), headers=headers)
        stop(run.task_id, policy="test")
        assert op.stop_signal.wait(HANG_GUARD)
        op.check()
    assert seen(run, "job").label is Label.UNKNOWN


def test_an_answer_that_comes_after_the_next_attempt_was_answered_is_kept_beside_it(
    sandbox: SandboxClient, start_worker: StartWorker, in_thread: InThread
) -> None:
    """The first worker holds its answer for longer than its lease; another one sends again, and is answered first."""
    run, worker, arrived = begin("Notify"), start_worker(), threading.Event()
    barrier = Barrier("job", arrived.set)
    with held_at("P8", barrier):
        first = in_thread(ask, run, "job")
        assert arrived.wait(HANG_GUARD)
        long_after(run)
        worker.start("job", run, NOTIFY, words("job"))
        assert worker.got("job") == Got("accepted")
        barrier.open()
        first.result(HANG_GUARD)
    attempts = operation(run, "job").receipts.order_by("pk").values_list("attempt__number", "claim", "source")
    assert list(attempts) == [(2, "succeeded", "provider"), (1, "succeeded", "provider")]
    assert counts(sandbox, run, "job") == {"submits": 2, "reads": 0, "cancels": 0, "writes": 1}
    assert (len(run.context()), operation(run, "job").doubled) == (1, False)
    assert_agrees(sandbox, run)


CROSSINGS = [
    ("succeeded", "failed", Label.COMPLETED, False),
    ("failed", "succeeded", Label.COMPLETED, False),
    ("succeeded", "succeeded", Label.COMPLETED, True),
    ("lost", "succeeded", Label.COMPLETED, False),
    ("failed", "failed", Label.FAILED, False),
    ("lost", "failed", Label.UNKNOWN, False),
]


def test_answers_that_cross_are_both_kept_and_fold_to_what_both_say(sandbox: SandboxClient) -> None:
    """The second attempt is answered before the first, with each pair of answers that a provider may give."""
    for late, early, label, doubled in CROSSINGS:
        told = crossed(begin(f"{late} after {early}"), late, early)
        assert (told.label, told.operation.doubled) == (label, doubled), f"{late} after {early}"
        assert [claim for claim, _ in claims(told.operation.pk)] == [early, late]
    assert list(differences()) == []


def crossed(run: Run, late: str, early: str) -> Observed:
    with run.dispatch(NOTIFY, connector="sandbox", key="job") as one:
        long_after(run)
        with run.dispatch(NOTIFY, connector="sandbox", key="job") as two:
            assert (one.attempt, two.attempt, one.idempotency_key) == (1, 2, two.idempotency_key)
            _answer(two, early, "second")
        _answer(one, late, "first")
    return seen(run, "job")


def _answer(op: Dispatched, claim: str, ref: str) -> None:
    if claim == "succeeded":
        op.succeeded(ref, ref=ref)
    else:
        getattr(op, claim)(ref)
