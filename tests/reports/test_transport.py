"""Transport and tools: what is open at the provider is what is listed, and every kind of tool meets the same gate.

R12, R15, R18, R29.

Shown elsewhere:

| case | where |
|---|---|
| a stop does not wait for a slow or vanished browser | `live/test_pace.py` |
| nothing is left over after many calls | `gate/test_answers.py`, row 13 |
| a tool that raises more than an exception ends nothing but itself | `test_sending.py` |
| one hanging provider holds up nobody else's follow-up work | `test_worker.py` |
| a tool that was told to end, and declares that it then does nothing | `gate/test_under_way.py`, row 12 |
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.models import Attempt, Operation, Receipt
from agentstop.outcomes import Outcome
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.barriers import shared_client
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import left_over
from tests.observed import claims, observed, task_of
from tests.reports.acts import NOTIFY, REPORT, ask, asked, assert_agrees, counts, long_after, operation, seen, words

pytestmark = pytest.mark.django_db(transaction=True)

STOPS, AT_ONCE = 100, 25


def test_after_a_hundred_stops_what_is_open_at_the_provider_is_what_is_listed_as_active(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """Each call is stopped while the provider has it: in the end both sides count the same, and then none."""
    sandbox.hold("received")
    runs = list[Run]()
    for _ in range(STOPS // AT_ONCE):
        batch = [begin(f"Task {len(runs) + number}", owner=ann) for number in range(AT_ONCE)]
        runs += batch
        calls = [in_thread(ask, run, "job") for run in batch]
        sandbox.wait("received", count=len(runs))
        for run in batch:
            stop(run.task_id, by=ann)
        assert all(call.result(HANG_GUARD).ignored for call in calls)
    held = {one["key"] for one in sandbox.wait("received", count=STOPS)}
    listed = {str(one.idempotency_key) for one in Operation.objects.all() if active(one)}
    assert held == listed and len(listed) == STOPS
    sandbox.release("received")
    sending.close()
    assert set(Operation.objects.values_list("state", flat=True)) == {"succeeded"}
    assert {counted["writes"] for counted in sandbox.ledger()["counts"].values()} == {1}
    assert left_over() == {}


def active(one: Operation) -> bool:
    return observed(one.pk).label in {Label.STILL_ACTIVE, Label.IN_PROGRESS}


def test_a_second_answer_about_a_cancelled_job_is_a_receipt_and_costs_nobody_the_connection(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The provider said yes to the cancel and completed it all the same; other tasks go on with the same client."""
    run, other = begin("Report", owner=ann), begin("Other", owner=ann)
    sandbox.hold("working", "job")
    in_thread(ask, run, "job", REPORT, ack_and_complete=True)
    sandbox.wait("working", "job")
    client = shared_client()
    stop(run.task_id, by=ann)
    long_after(run)
    work()
    sandbox.release("working", "job")
    sandbox.settled("job")
    long_after(run)
    while work():
        pass
    assert seen(run, "job").label is Label.COMPLETED_BEFORE
    assert ask(other, "job of another").accepted
    assert shared_client() == client
    assert_agrees(sandbox, run, other)


def test_a_tool_that_answers_twice_is_kept_twice_and_admitted_once(tools: None, ann: User) -> None:
    run = begin("Write", owner=ann)
    with run.dispatch("write", connector="tools", key="k") as op:
        op.succeeded("one", ref="7")
        op.succeeded("two", ref="7")
        stop(run.task_id, by=ann)
        op.succeeded("three", ref="7")
    assert claims(op.id) == [("succeeded", "provider")] * 3
    assert run.context() == ["one"]
    assert seen(run, "k").label is Label.COMPLETED_BEFORE
    assert list(differences()) == []


class Computing:
    """A tool that uses the processor until it is told to go on, does not listen, and writes in the end."""

    def __init__(self) -> None:
        self.entered, self.enough = threading.Event(), threading.Event()
        self.writes = 0

    def __call__(self, op: Dispatched) -> int:
        self.entered.set()
        turns = 0
        while not self.enough.is_set():
            turns += 1
        self.writes += 1
        return turns


def test_a_tool_that_only_computes_frees_its_caller_at_the_stop_and_is_listed_until_it_ends(
    tools: None, in_thread: InThread, ann: User
) -> None:
    """A busy thread cannot be ended from outside: that it goes on is said, and what it then does is counted."""
    run, tool = begin("Compute", owner=ann), Computing()
    called = in_thread(run.call, "compute", connector="tools", key="k", send=tool)
    assert tool.entered.wait(HANG_GUARD)
    report = stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    assert (report.open, tool.writes) == ((operation(run, "k").pk,), 0)
    assert seen(run, "k").reading.name == "still active (being sent)"
    tool.enough.set()
    sending.close()
    assert (tool.writes, seen(run, "k").label) == (1, Label.COMPLETED_BEFORE)


PROGRAM = """
import sys, urllib.request
print("up", flush=True)
if sys.stdin.readline():
    headers = {"Content-Type": "application/json", "Idempotency-Key": sys.argv[2]}
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[3].encode(), headers)).read()
"""


class Program:
    """A tool that has a program of its own do the sending, and ends it when it hears of the stop."""

    def __init__(self, address: str, *, sends_first: bool) -> None:
        self.address, self.sends_first = address, sends_first
        self.up = threading.Event()
        self.pid = 0

    def __call__(self, op: Dispatched) -> None:
        import json

        op.check()
        body = json.dumps(words("job"))
        command = [sys.executable, "-c", PROGRAM, f"{self.address}/notifications", op.idempotency_key, body]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            assert process.stdin is not None and process.stdout is not None
            self.pid = process.pid
            assert process.stdout.readline() == "up\n"
            if self.sends_first:
                process.stdin.write("go\n")
                process.stdin.flush()
            self.up.set()
            assert op.stop_signal.wait(HANG_GUARD)
            process.kill()
        raise ConnectionAbortedError("ended at the stop")


@pytest.mark.parametrize(
    ("sends_first", "end"), [(True, Label.COMPLETED_BEFORE), (False, Label.NOT_SENT)], ids=["sent", "not sent"]
)
def test_a_program_that_was_ended_at_the_stop_may_have_sent_and_the_provider_tells(
    sandbox: SandboxClient, in_thread: InThread, ann: User, sends_first: bool, end: Label
) -> None:
    """Killing a process proves nothing about what it did: unknown until the provider was asked."""
    run, tool = begin("Notify", owner=ann), Program(sandbox.address, sends_first=sends_first)
    sandbox.hold("accepted", "job")
    called = in_thread(run.call, NOTIFY, connector="sandbox", key="job", send=tool)
    assert tool.up.wait(HANG_GUARD)
    if sends_first:
        sandbox.wait("accepted", "job")
    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    sending.close()
    assert seen(run, "job").label is Label.UNKNOWN
    sandbox.release("accepted", "job")
    if sends_first:
        sandbox.settled("job")
    long_after(run)
    while work():
        pass
    assert seen(run, "job").label is end
    assert_agrees(sandbox, run)


def test_an_agent_used_as_a_tool_lists_what_it_does_and_is_stopped_with_its_caller(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The outer call is one operation, the inner agent's sends are others: all are listed, none leaves afterwards."""
    outer, inner = begin("Outer", owner=ann), list[Run]()
    told = list[str]()

    def agent(op: Dispatched) -> str:
        with begin("Inner", serves=[outer]) as run:
            inner.append(run)
            told.extend(asked(run, f"send {number}") for number in range(1, 4))
            run.check()
        return "summary"

    sandbox.hold("received", "send 2")
    called = in_thread(outer.call, "agent", connector="tools", key="agent", send=agent)
    sandbox.wait("received", "send 2")
    report = stop(outer.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    assert report.descendants == 1
    sandbox.release("received", "send 2")
    sending.close()
    assert told == ["accepted", "ignored", "stopped"]
    assert [seen(inner[0], f"send {number}").label for number in (1, 2, 3)] == [
        Label.COMPLETED_BEFORE, Label.COMPLETED_BEFORE, Label.NOT_SENT,
    ]  # fmt: skip
    assert seen(outer, "agent").label is Label.UNKNOWN  # its tool broke off, and only it knows what it had done
    assert [task_of(run).state for run in (outer, inner[0])] == ["stopped", "stopped"]
    assert_agrees(sandbox, outer, inner[0])


def test_a_thread_that_writes_in_a_loop_is_refused_by_the_gate_whatever_started_it(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """A tool has left a thread of its own behind, which writes through the run it was given and never looks up."""
    run, third, go_on = begin("Loop", owner=ann), threading.Event(), threading.Event()
    told = list[str]()

    def loop() -> None:
        for number in range(20):
            if number == 3:
                third.set()
                assert go_on.wait(HANG_GUARD)
            told.append(asked(Run.from_token(run.token), f"write {number}"))

    looping = in_thread(loop)
    assert third.wait(HANG_GUARD)
    stop(run.task_id, by=ann)
    go_on.set()
    looping.result(HANG_GUARD)
    assert told == ["accepted"] * 3 + ["stopped"] * 17
    assert len(sandbox.ledger()["effects"]) == 3
    assert Attempt.objects.count() == 3


def test_a_coroutine_tool_in_the_middle_of_its_request_is_left_to_finish_after_its_loop_is_gone(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """Its caller's loop ends at the stop; the request does not, and its answer is a receipt."""
    run = begin("Notify", owner=ann)
    sandbox.hold("received", "job")

    async def tool(op: Dispatched) -> Any:
        op.check()
        headers = {"Idempotency-Key": op.idempotency_key}
        async with httpx.AsyncClient(trust_env=False, timeout=HANG_GUARD) as client:
            return (await client.post(f"{sandbox.address}/notifications", json=words("job"), headers=headers)).json()

    async def agent() -> Outcome:
        return await run.acall(NOTIFY, connector="sandbox", key="job", send=tool)

    called = in_thread(asyncio.run, agent())
    sandbox.wait("received", "job")
    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    assert seen(run, "job").label is Label.STILL_ACTIVE
    sandbox.release("received", "job")
    sending.close()
    assert seen(run, "job").label is Label.COMPLETED_BEFORE
    assert '"status":"succeeded"' in Receipt.objects.get(operation=operation(run, "job")).body
    assert_agrees(sandbox, run)


def test_a_call_that_is_stopped_before_its_connection_stands_sends_nothing(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """It waits for something else first, a sign-in for instance; the check right before the first byte ends it."""
    run, waiting, signed_in = begin("Notify", owner=ann), threading.Event(), threading.Event()

    def tool(op: Dispatched) -> Any:
        waiting.set()
        assert signed_in.wait(HANG_GUARD)
        op.check()
        return httpx.post(f"{sandbox.address}/notifications", json=words("job")).json()

    called = in_thread(run.call, NOTIFY, connector="sandbox", key="job", send=tool)
    assert waiting.wait(HANG_GUARD)
    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    signed_in.set()
    sending.close()
    assert seen(run, "job").label is Label.NOT_SENT
    assert counts(sandbox, run, "job") == {"submits": 0, "reads": 0, "cancels": 0, "writes": 0}
    assert sandbox.ledger()["effects"] == []
