"""How a tool's process begins and ends: what it gives back, what it cannot, and that nothing of it is left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.exceptions import AgentStopError
from agentstop.models import Operation, Receipt
from agentstop.outcomes import Outcome
from agentstop.process.parent import Child
from agentstop.processes import in_process
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import claims
from tests.processes import host
from tests.processes import tools as apart
from tests.processes.conftest import Meeting, gone, runs
from tests.reports.acts import operation, seen

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def run(tools: None, ann: User) -> Run:
    return begin("a task", owner=ann)


def call(run: Run, send: Any, key: str = "k", **options: Any) -> Outcome:
    return run.call("compute", connector="tools", key=key, send=send, **options)


def test_its_value_is_the_result(run: Run) -> None:
    outcome = call(run, in_process(partial(apart.returns, value={"rows": [1, 2]})))
    assert (outcome.accepted, outcome.result) == (True, {"rows": [1, 2]})
    assert run.context() == [{"rows": [1, 2]}]


def test_it_prints_where_its_parent_does(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(run, in_process(partial(print, "from the tool", flush=True))).accepted
    assert "from the tool" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("tool", "said"), [(apart.raises, "ValueError: not my day"), (apart.raises_system_exit, "SystemExit: 3")]
)
def test_what_it_raises_proves_nothing(tool: Any, said: str, run: Run) -> None:
    assert call(run, in_process(tool)).failed
    assert Receipt.objects.get().body == said
    assert seen(run, "k").label is Label.UNKNOWN


def test_a_value_that_cannot_be_passed_on_is_a_success_without_a_result(run: Run) -> None:
    outcome = call(run, in_process(apart.returns_what_cannot_be_passed_on))
    assert outcome.failed and "the effect is recorded" in outcome.error
    assert seen(run, "k").label is Label.COMPLETED


def test_a_function_that_its_process_cannot_import_has_sent_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("only_here")
    exec("def tool(op): pass", module.__dict__)  # noqa: S102  a module without a file
    monkeypatch.setitem(sys.modules, "only_here", module)
    assert call(run, in_process(module.tool)).failed
    assert claims(operation(run, "k").pk) == [("unsent", "sender")]
    assert "No module named 'only_here'" in Receipt.objects.get().body


def test_a_process_that_cannot_be_started_has_sent_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing.spawn, "get_executable", lambda: "/nowhere/python")
    assert call(run, in_process(apart.returns)).failed
    assert seen(run, "k").label is Label.NOT_SENT


@pytest.mark.parametrize("kill_after", [-1, float("nan"), float("inf"), "5", None])
def test_a_time_that_makes_no_sense_is_refused_in_a_sentence(kill_after: Any) -> None:
    with pytest.raises(ValueError, match="kill_after must be a number of seconds"):
        in_process(apart.returns, kill_after=kill_after)


def test_a_function_that_no_other_process_can_import_is_refused_before_anything_is_listed(run: Run) -> None:
    with pytest.raises(ValueError, match="at the top of a module"):
        call(run, in_process(lambda op: None))
    assert not Operation.objects.exists()


def test_a_daemonic_process_is_told_that_it_may_start_none() -> None:
    """As those of Celery's prefork pool are; `run.call` asks before its gate."""
    hear, tell = multiprocessing.Pipe(duplex=False)
    daemonic = multiprocessing.get_context("spawn").Process(target=host.is_refused, args=(tell,), daemon=True)
    daemonic.start()
    daemonic.join(HANG_GUARD)
    assert hear.poll() and "--pool=threads" in hear.recv()


def test_a_daemonic_process_lists_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(AgentStopError, match="nothing was sent"):
        call(run, in_process(apart.returns))
    assert not Operation.objects.exists()


TURNS = 4


def open_files() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))


def left() -> dict[str, Any]:
    return {
        "children": len(Child.all()),
        "processes": multiprocessing.active_children(),
        "threads": [thread.name for thread in threading.enumerate() if "end-of" in thread.name],
    }


def test_nothing_is_left_of_tools_that_returned_raised_crashed_or_were_killed(
    run: Run, meeting: Meeting, in_thread: InThread, ann: User
) -> None:
    """No zombie, no thread, no open file, however it ended."""
    nothing = {"children": 0, "processes": [], "threads": []}
    assert call(run, in_process(apart.returns), key="first").accepted  # what is made once for the process
    eventually(left, nothing)
    before, tools = (
        open_files(),
        (apart.returns, apart.raises, apart.ends_by_itself, apart.returns_what_cannot_be_passed_on),
    )
    for number in range(TURNS):
        for tool in tools:
            call(run, in_process(tool), key=f"{tool.__name__} {number}")
    killed = begin("another", owner=ann)
    called = in_thread(call, killed, in_process(partial(apart.computes, place=meeting.place), kill_after=0.0))
    meeting.wait()
    stop(killed.task_id)
    assert called.result(HANG_GUARD).ignored
    eventually(left, nothing)
    assert open_files() < before + TURNS * len(tools)  # but for what the process opens once, for the database


def test_when_the_process_ends_it_does_not_wait_for_a_tool_that_does_not(
    run: Run, meeting: Meeting, in_thread: InThread, settings: Settings
) -> None:
    settings.AGENTSTOP_DRAIN = 0.1
    called = in_thread(call, run, in_process(partial(apart.computes, place=meeting.place), kill_after=1_000.0))
    (pid,) = meeting.wait()
    meeting.let_go()
    sending.close()
    gone(pid)
    stop(run.task_id)  # what frees the caller, whose sender is gone
    called.result(HANG_GUARD)


@contextmanager
def hosting(database_url: str, run: Run, place: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.processes.host", run.token, place, *words]
    environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.processes.settings"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "tool",
    [
        "has_a_program_compute",
        pytest.param("computes_in_c", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux kills it")),
    ],
)
def test_a_tool_dies_with_its_parent_and_so_does_what_it_has_started(
    tool: str, run: Run, meeting: Meeting, database_url: str
) -> None:
    with hosting(database_url, run, meeting.place, tool) as process:
        pids = meeting.wait()
        meeting.let_go()
        assert all(runs(pid) for pid in pids)
        os.kill(process.pid, signal.SIGKILL)
        gone(*pids)


def test_a_fork_of_its_parent_does_not_keep_it_alive(run: Run, meeting: Meeting, database_url: str) -> None:
    with hosting(database_url, run, meeting.place, "has_a_program_compute", "forks") as process:
        assert process.stdin is not None and process.stdout is not None
        pids = meeting.wait()
        meeting.let_go()
        process.stdin.write("fork\n")
        process.stdin.flush()
        copy = int(process.stdout.readline())
        try:
            os.kill(process.pid, signal.SIGKILL)
            gone(*pids)
            assert runs(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
