"""R43: every question to a provider has a deadline. What overruns it is let go of, counted, and unknown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from django.db.models import F
from pytest_django.fixtures import Settings

from agentstop import asking, reconcile
from agentstop.models import Operation
from agentstop.providers.base import Answer, Cancel, CancelReply, Capability, Context, LookUp, Provider, Submission
from agentstop.runs import begin
from agentstop.states import Cancellation, OperationState
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually, left_over
from tests.observed import claims, of_key

pytestmark = pytest.mark.django_db(transaction=True)

released = threading.Event()


async def hang() -> None:
    """Does not even end when it is told to."""
    while not released.is_set():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue


class Hung(Provider):
    """Answers nothing that it is asked."""

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_KEY, cancel=Cancel.BEST_EFFORT, cancel_needs_ref=False)

    async def submit(self, submission: Submission, context: Context) -> Answer:
        context.before_write()
        await hang()
        raise OSError("too late to say")

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        context.before_write()
        await hang()
        raise OSError("too late to say")

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        await hang()
        return None


@pytest.fixture(autouse=True)
def hung(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.AGENTSTOP_CONNECTORS = {"hung": {"PROVIDER": "tests.test_deadlines.Hung"}}
    settings.AGENTSTOP_DEADLINE = 0.2
    monkeypatch.setattr(asking, "ABANDON", 0.2)
    released.clear()
    yield
    released.set()


def nothing_is_held_once_it_ends() -> None:
    released.set()
    eventually(left_over, {})


def test_a_submit_that_hangs_frees_its_caller_and_is_unknown(in_thread: InThread) -> None:
    run = begin("Write")
    outcome = in_thread(run.call, "write", connector="hung", key="k").result(HANG_GUARD)
    assert outcome.failed and "no answer within the deadline" in outcome.error
    seen = of_key(run.task_id, "k")
    assert (seen.state, claims(seen.operation.pk)) == (OperationState.UNKNOWN, [("lost", "sender")])
    nothing_is_held_once_it_ends()


def accepted() -> Operation:
    run = begin("Write")
    with run.dispatch("write", connector="hung", key="k") as op:
        op.accepted("7")
    Operation.objects.update(follow_up_at=F("created_at"))
    return Operation.objects.get(pk=op.id)


def test_a_cancel_request_that_hangs_may_have_arrived_and_is_counted() -> None:
    operation = accepted()
    stop(operation.task_id, policy="test")
    assert reconcile.work() == 1  # it comes back
    seen = of_key(operation.task_id, "k")
    assert (seen.state, seen.cancellation) == (OperationState.ACCEPTED, Cancellation.SENT)
    assert claims(operation.pk) == [("accepted", "provider"), ("lost", "sender")]
    nothing_is_held_once_it_ends()


def test_a_look_up_that_hangs_says_nothing_and_is_asked_again() -> None:
    operation = accepted()
    assert reconcile.work() == 1  # it comes back
    operation.refresh_from_db()
    assert (operation.state, operation.follow_ups) == ("accepted", 1)
    assert operation.follow_up_at is not None
    nothing_is_held_once_it_ends()
