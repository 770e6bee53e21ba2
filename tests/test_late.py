"""Answers that come when nobody waits for them any more are kept, as what they are (R15, R43)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentstop import asking, carry, sending
from agentstop.dispatched import Dispatched
from agentstop.exceptions import AgentStopError
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import claims, of_key
from tests.tools import Counting, Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

Say = Callable[[Dispatched], Any]


class Slow(Pending):
    """Answers after its deadline, in the words of the test; as a coroutine it does not end when it is told to."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self.say = say

    def __call__(self, op: Dispatched) -> Any:
        super().__call__(op)
        return self.say(op)

    async def asynchronous(self, op: Dispatched) -> Any:
        while True:
            try:
                await super().asynchronous(op)
                break
            except asyncio.CancelledError:
                continue
        return await sending.in_domain(self.say, op)


SAYINGS: dict[str, tuple[Say, OperationState]] = {
    "a value": (lambda op: "done", OperationState.SUCCEEDED),
    "accepted": (lambda op: op.accepted("r"), OperationState.ACCEPTED),
    "failed": (lambda op: op.failed("no") and None, OperationState.FAILED),
    "succeeded": (lambda op: op.succeeded("done") and None, OperationState.SUCCEEDED),
}


@pytest.mark.parametrize("name", SAYINGS)
@pytest.mark.parametrize("style", ["def", "async def"])
def test_a_tool_that_answers_after_its_deadline_is_heard(
    name: str, style: str, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ABANDON", 0.05)
    say, state = SAYINGS[name]
    run, tool = begin("a task"), Slow(say)
    send = tool if style == "def" else tool.asynchronous
    caller = in_thread(run.call, "write", {}, connector="tools", key="k", send=send, deadline=2.0)
    outcome = caller.result(HANG_GUARD)
    assert outcome.failed and "deadline" in outcome.error
    assert of_key(run.task_id, "k").state is OperationState.UNKNOWN
    tool.release()
    eventually(lambda: of_key(run.task_id, "k").state, state)
    sending.close()
    told = {claim for claim, _ in claims(of_key(run.task_id, "k").operation.pk)}
    assert told == {"lost", "succeeded" if name == "a value" else name}


def test_what_could_not_be_started_was_not_sent(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """R12: the process was about to end when the gate had let it pass."""
    run, tool = begin("a task"), Counting()

    def ending() -> sending.Sender:
        raise AgentStopError("This process is ending: nothing more is sent from it.")

    def calls(run: Run) -> str:
        with pytest.raises(AgentStopError, match="is ending"):
            run.call("write", {}, connector="tools", key="k", send=tool)
        return of_key(run.task_id, "k").state

    with monkeypatch.context() as patch:
        patch.setattr(carry, "sender", ending)
        assert in_thread(calls, run).result(HANG_GUARD) == OperationState.NOT_SENT
    assert tool.writes == 0
    assert in_thread(run.call, "write", {}, connector="tools", key="k", send=tool).result(HANG_GUARD).accepted
