"""Callers that leave lose no receipt, whatever way: cancelled, without their loop, with their process, after a fork.

R12, R15.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Coroutine, Generator
from pathlib import Path
from threading import Barrier, Event
from types import coroutine
from typing import Any

import pytest

from agentstop import sending, settle
from agentstop.outcomes import Outcome
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.counted import left_over
from tests.observed import call_outcomes, claims, of_key
from tests.tools import Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

ROOT = Path(__file__).resolve().parent.parent


@coroutine
def cancelled_at(suspension: int, work: Coroutine[Any, Any, Outcome]) -> Generator[Any, Any, Outcome | None]:
    """Runs `work`, and cancels it where it waits for the so-manieth time; None if it was."""
    try:
        for _ in range(suspension):
            yield work.send(None)
        future = work.send(None)
        future._asyncio_future_blocking = False  # nobody waits for it any more
        work.throw(asyncio.CancelledError())
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    except asyncio.CancelledError:
        return None
    raise AssertionError("it went on after it was cancelled")


def acall(run: Run, tool: Pending) -> Coroutine[Any, Any, Outcome]:
    return run.acall("write", {}, connector="tools", key="k", send=tool)


@pytest.mark.parametrize("suspension", [0, 1], ids=["at the gate", "for the outcome"])
def test_a_caller_cancelled_while_it_waits_loses_no_receipt(suspension: int, in_thread: InThread) -> None:
    """R26."""
    run, tool = begin("a task"), Pending("done")
    calling = in_thread(lambda: asyncio.run(awaiting(cancelled_at(suspension, acall(run, tool)))))
    tool.wait_until_entered()
    assert calling.result(HANG_GUARD) is None
    tool.release()
    sending.close()
    seen = of_key(run.task_id, "k")
    assert claims(seen.operation.pk) == [("succeeded", "provider")]
    assert call_outcomes(seen.operation.pk) == [(run.number, "accepted")]
    assert run.context() == ["done"]
    assert left_over() == {}


def test_a_caller_cancelled_while_its_outcome_is_committed_loses_no_receipt(
    in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tool = begin("a task"), Pending("done")
    recording, left, record = Barrier(2, timeout=HANG_GUARD), Event(), settle.record

    def held(*args: Any, **kwargs: Any) -> Any:
        recording.wait()
        recording.wait()
        return record(*args, **kwargs)

    async def leaves() -> Outcome | None:
        outcome = await cancelled_at(2, acall(run, tool))
        left.set()
        return outcome

    monkeypatch.setattr(settle, "record", held)
    calling = in_thread(lambda: asyncio.run(leaves()))
    tool.wait_until_entered()
    tool.release()
    recording.wait()
    stop(run.task_id)  # frees the caller, who then waits for the commit that is under way
    assert left.wait(HANG_GUARD)
    recording.wait()
    assert calling.result(HANG_GUARD) is None
    sending.close()
    assert call_outcomes(of_key(run.task_id, "k").operation.pk) == [(run.number, "ignored")]
    assert left_over() == {}


def test_an_outcome_that_is_there_is_not_cancelled(in_thread: InThread) -> None:
    """So the waits that are cancelled above are all there are."""
    run, tool = begin("a task"), Pending("done")
    tool.release()
    outcome = in_thread(lambda: asyncio.run(awaiting(cancelled_at(2, acall(run, tool))))).result(HANG_GUARD)
    assert outcome is not None and outcome.accepted


async def awaiting(work: Awaitable[Outcome | None]) -> Outcome | None:
    return await work


def test_a_caller_whose_loop_is_gone_disturbs_nobody(in_thread: InThread) -> None:
    run, tool = begin("a task"), Pending("done")
    loop = asyncio.new_event_loop()

    def leaves() -> None:
        task = loop.create_task(acall(run, tool))
        setattr(task, "_log_destroy_pending", False)  # noqa: B010  no public name; it is left as it is on purpose
        loop.run_until_complete(loop.run_in_executor(None, tool.wait_until_entered))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    in_thread(leaves).result(HANG_GUARD)
    stop(run.task_id)
    tool.release()
    sending.close()
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.SUCCEEDED
    assert call_outcomes(seen.operation.pk) == [(run.number, "ignored")]


def test_a_call_waiting_in_a_loop_hears_of_a_stop(in_thread: InThread) -> None:
    run, tool = begin("a task"), Pending("done")
    calling = in_thread(lambda: asyncio.run(acall(run, tool)))
    tool.wait_until_entered()
    stop(run.task_id)
    assert calling.result(HANG_GUARD).ignored
    tool.release()


def leave(mode: str, database_url: str, run: Run) -> int:
    """The exit code of a process that ends in this way."""
    environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-m", "tests.leaving", mode, str(run.task_id), str(run.number)]
    return subprocess.run(command, cwd=ROOT, env=environment, timeout=HANG_GUARD, check=False).returncode


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        ("ends", 0),
        ("leaves", 3),
        ("ends_with_a_coroutine", 0),
        ("ends_its_loop", 0),
        ("forks", 0),
        ("forks_a_worker", 0),
    ],
)
def test_a_process_that_ends_waits_for_the_receipt(mode: str, status: int, database_url: str) -> None:
    run = begin("a task")
    assert leave(mode, database_url, run) == status
    seen = of_key(run.task_id, "k")
    assert claims(seen.operation.pk) == [("succeeded", "provider")]
    assert seen.state is OperationState.SUCCEEDED


def test_a_process_does_not_wait_for_ever(database_url: str) -> None:
    run = begin("a task")
    assert leave("ends_in_vain", database_url, run) == 0
    seen = of_key(run.task_id, "k")
    assert seen.state in {OperationState.SENDING, OperationState.UNKNOWN}
    assert run.context() == []
