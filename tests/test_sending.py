"""The send loop: it outlives its callers and what their code raises, and leaves nothing behind when it is closed."""

from __future__ import annotations

import asyncio

import pytest

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.models import Receipt
from agentstop.runs import begin
from agentstop.states import OperationState
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import of_key
from tests.tools import Counting, Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def test_closing_waits_for_what_is_under_way_and_makes_no_other_sender(in_thread: InThread) -> None:
    run, tool = begin("t"), Pending("late")
    caller = in_thread(run.call, "write", {}, connector="tools", key="k", send=tool)
    tool.wait_until_entered()
    draining = sending.sender()
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    closing = in_thread(sending.close)
    eventually(lambda: draining._closing, True)
    assert not closing.done()
    tool.release()
    closing.result(HANG_GUARD)
    assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED
    assert sending._current is None


async def leaves(op: Dispatched) -> None:
    raise SystemExit(3)


async def interrupts(op: Dispatched) -> None:
    raise KeyboardInterrupt


async def cancels_itself(op: Dispatched) -> None:
    raise asyncio.CancelledError


def leaves_in_a_thread(op: Dispatched) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("tool", [leaves, interrupts, cancels_itself, leaves_in_a_thread])
def test_a_tool_that_raises_more_than_an_exception_ends_nothing_but_itself(tool: object, in_thread: InThread) -> None:
    run = begin("t")
    failed = in_thread(run.call, "write", {}, connector="tools", key="k", send=tool).result(HANG_GUARD)
    assert failed.failed
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.UNKNOWN
    assert Receipt.objects.get(operation=seen.operation).claim == "lost"
    next_one = in_thread(run.call, "write", {}, connector="tools", key="next", send=Counting("a"))
    assert next_one.result(HANG_GUARD).accepted
