"""The sixteen facts of the run gate, through the sync and the async door, with sync and async tools.

What a tool wrote is counted by the tool itself. Each test names its row.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import signing

from agentstop import sending, settle, wake
from agentstop.dispatched import Dispatched
from agentstop.exceptions import BadToken, PassExpired, Stopped, Superseded
from agentstop.models import Receipt
from agentstop.outcomes import Outcome, text_only
from agentstop.runs import TOKEN_SALT, Run, begin
from agentstop.states import Claim, OperationState, Source
from agentstop.stop import stop
from agentstop.stop_signal import held
from agentstop.words.sentences import MOMENT_UNKNOWN, RECEIPTS
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import database_connections, eventually, left_over, threads
from tests.observed import call_outcomes, claims, of_key, task_of
from tests.tools import Cooperative, Counting, Pending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

Start = Callable[..., "Future[Outcome]"]
Style = Callable[[Any], Callable[[Dispatched], Any]]


@pytest.fixture(params=["call", "acall"])
def start(request: pytest.FixtureRequest, in_thread: InThread) -> Start:
    """Starts `run.call` or `run.acall` in a thread of the caller's own."""

    def sync(run: Run, tool: Any, key: str = "k", **manner: Any) -> Outcome:
        return run.call("write", {}, connector="tools", key=key, send=tool, **manner)

    def in_a_loop(run: Run, tool: Any, key: str = "k", **manner: Any) -> Outcome:
        return asyncio.run(run.acall("write", {}, connector="tools", key=key, send=tool, **manner))

    door = sync if request.param == "call" else in_a_loop
    return lambda *args, **kwargs: in_thread(door, *args, **kwargs)


@pytest.fixture(params=["def", "async def"])
def style(request: pytest.FixtureRequest) -> Style:
    """The tool as a plain function, or as a coroutine function."""
    return (lambda tool: tool) if request.param == "def" else (lambda tool: tool.asynchronous)


@pytest.fixture
def call(start: Start) -> Callable[..., Outcome]:
    return lambda *args, **kwargs: start(*args, **kwargs).result(HANG_GUARD)


@pytest.fixture
def run() -> Run:
    return begin("write a report")


def again(run: Run) -> Run:
    """A new run of the same task, which supersedes the one before."""
    return begin(task_of(run))


def test_rows_1_and_2_a_returned_value_is_accepted_into_the_context(
    run: Run, call: Callable[..., Outcome], style: Style
) -> None:
    outcome = call(run, style(Counting("a")))
    assert outcome.accepted and outcome.result == "a"
    assert run.context() == ["a"]
    assert of_key(run.task_id, "k").label is Label.COMPLETED


def test_row_3_a_stopped_run_calls_no_tool(run: Run, call: Callable[..., Outcome], style: Style) -> None:
    tool = Counting()
    stop(run.task_id)
    outcome = call(run, style(tool))
    assert outcome.ignored and isinstance(outcome.refusal, Stopped)
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.refusal) == (Label.NOT_SENT, "stopped")


def test_row_4_a_superseded_run_calls_no_tool(run: Run, call: Callable[..., Outcome], style: Style) -> None:
    tool = Counting()
    again(run)
    outcome = call(run, style(tool))
    assert outcome.ignored and isinstance(outcome.refusal, Superseded)
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.refusal) == (Label.NOT_SENT, "superseded")


def test_row_5_a_new_run_supersedes_and_signals_the_old_one_and_starts_clean(
    run: Run, call: Callable[..., Outcome]
) -> None:
    assert call(run, Counting("old")).accepted
    with held(run.task_id, run.number) as signal:
        newer = again(run)
        assert signal.wait(HANG_GUARD)
        assert signal.reason is Superseded
    assert newer.number == run.number + 1
    states = dict(task_of(run).runs.values_list("number", "state"))
    assert states == {run.number: "superseded", newer.number: "live"}
    assert (run.context(), newer.context()) == (["old"], [])
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.SUCCEEDED
    assert seen.operation.tries.get().run == run.number


def test_rows_6_and_7_the_caller_is_freed_at_the_stop_and_the_late_write_is_counted(
    run: Run, start: Start, style: Style
) -> None:
    tool = Pending("old tool result")
    caller = start(run, style(tool))
    tool.wait_until_entered()
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    assert tool.pending and tool.writes == 0
    seen = of_key(run.task_id, "k")
    assert (seen.label, seen.reading.name) == (Label.STILL_ACTIVE, "still active (being sent)")

    tool.release()
    sending.close()
    assert tool.writes == 1
    assert run.context() == []
    seen = of_key(run.task_id, "k")
    assert seen.label is Label.COMPLETED_BEFORE and MOMENT_UNKNOWN in seen.reading.evidence
    assert call_outcomes(seen.operation.pk) == [(run.number, "ignored")]


def test_row_8_the_old_answer_is_kept_as_a_receipt_and_out_of_the_new_context(
    run: Run, start: Start, call: Callable[..., Outcome], style: Style
) -> None:
    tool = Pending("old tool result")
    caller = start(run, style(tool))
    tool.wait_until_entered()
    newer = again(run)
    assert caller.result(HANG_GUARD).ignored
    assert call(newer, Counting("fresh result"), key="fresh").accepted
    tool.release()
    sending.close()
    assert tool.writes == 1
    assert (run.context(), newer.context()) == ([], ["fresh result"])
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.SUCCEEDED
    assert claims(seen.operation.pk) == [("succeeded", "provider")]


@pytest.mark.parametrize(
    ("error", "label"),
    [(OSError("the line broke"), Label.UNKNOWN), (PassExpired("the run is over"), Label.NOT_SENT)],
    ids=["proves nothing", "proves that nothing was sent"],
)
def test_row_9_an_error_after_the_stop_is_kept_and_disturbs_nobody(
    run: Run, start: Start, style: Style, error: Exception, label: Label, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Pending()
    caller = start(run, style(tool))
    tool.wait_until_entered()
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    tool.fail(error)
    sending.close()
    gc.collect()  # a future whose error nobody has taken complains when it is collected
    assert [record for record in caplog.records if record.name in {"asyncio", "concurrent.futures"}] == []
    assert (tool.writes, run.context()) == (0, [])
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    assert str(error) in Receipt.objects.get(operation=seen.operation).body


def raising(op: Dispatched) -> None:
    raise OSError("the line broke")


async def araising(op: Dispatched) -> None:
    await asyncio.sleep(0)
    raise OSError("the line broke")


async def araising_at_once(op: Dispatched) -> None:
    raise OSError("the line broke")


def said_to_have_failed(op: Dispatched) -> None:
    op.failed("no such channel")
    raise OSError("no such channel")


@pytest.mark.parametrize(
    ("tool", "label"),
    [
        (raising, Label.UNKNOWN),
        (araising, Label.UNKNOWN),
        (araising_at_once, Label.UNKNOWN),
        (said_to_have_failed, Label.FAILED),
    ],
)
def test_rows_10_and_11_an_error_fails_the_call_and_the_run_goes_on(
    run: Run, call: Callable[..., Outcome], tool: Callable[[Dispatched], Any], label: Label
) -> None:
    outcome = call(run, tool)
    assert outcome.failed and outcome.error
    assert run.context() == []
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    assert Receipt.objects.filter(operation=seen.operation, body__contains=outcome.error.split(": ")[-1]).exists()
    assert left_over() == {}
    assert call(run, Counting("next"), key="next").accepted
    assert run.context() == ["next"]


@pytest.mark.parametrize(("on_stop", "label"), [("cancel", Label.NOT_SENT), ("finish", Label.UNKNOWN)])
def test_row_12_a_cooperative_tool_gives_up_before_its_write(
    run: Run, start: Start, on_stop: str, label: Label, style: Style
) -> None:
    tool = Cooperative()
    if on_stop == "finish":
        style = lambda tool: tool  # noqa: E731  a coroutine that is left to finish hears by its signal as a thread does
    caller = start(run, style(tool), on_stop=on_stop)
    assert tool.entered.wait(HANG_GUARD)
    stop(run.task_id)
    assert caller.result(HANG_GUARD).ignored
    sending.close()
    assert (tool.writes, tool.heard) == (0, "stopped")
    seen = of_key(run.task_id, "k")
    assert seen.label is label
    declared = RECEIPTS[Claim.ENDED, Source.SENDER]  # its request may have left: that nothing did would claim too much
    assert (seen.reading.evidence == declared) == (on_stop == "cancel")


def test_row_14_what_is_no_text_fails_the_call_and_not_the_effect(
    run: Run, call: Callable[..., Outcome], style: Style
) -> None:
    values: list[Any] = [None, 1, {}, ["a"], b"bytes"]
    for number, value in enumerate(values):
        tool = Counting(value)
        outcome = call(run, style(tool), key=f"k{number}", classify=text_only)
        assert outcome.failed and outcome.error
        seen = of_key(run.task_id, f"k{number}")
        assert (tool.writes, seen.state) == (1, OperationState.SUCCEEDED)
    assert run.context() == []


def test_row_15_a_result_that_is_ready_when_the_stop_commits_is_kept_out(
    run: Run, start: Start, style: Style, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, stopped = threading.Event(), threading.Event()
    record = settle.record

    def held_before_admission(*args: Any, **kwargs: Any) -> Any:
        ready.set()
        assert stopped.wait(HANG_GUARD)
        return record(*args, **kwargs)

    monkeypatch.setattr(settle, "record", held_before_admission)
    caller = start(run, style(Counting("a")))
    assert ready.wait(HANG_GUARD)
    stop(run.task_id)
    stopped.set()
    assert caller.result(HANG_GUARD).ignored
    assert run.context() == []
    assert of_key(run.task_id, "k").label is Label.COMPLETED_BEFORE


def test_row_16_what_was_admitted_stays_and_no_token_opens_the_gate_again(
    run: Run, call: Callable[..., Outcome]
) -> None:
    assert call(run, Counting("kept"), key="kept").accepted
    token = run.token
    other = begin("another task")
    stop(run.task_id)
    tool = Counting()
    late = call(Run.from_token(token), tool)
    assert late.ignored and isinstance(late.refusal, Stopped)
    payload, signature = token.rsplit(":", 1)
    altered = signing.dumps([run.task_id, run.number + 1], salt=TOKEN_SALT, key="not ours")
    foreign_payload = signing.dumps([run.task_id, run.number + 1], salt="another purpose")
    for bad in [altered, foreign_payload, f"{payload}:{signature[::-1]}", payload, "", "\x00", "é", token + "x"]:
        with pytest.raises(BadToken):
            Run.from_token(bad)
    with pytest.raises(BadToken, match="another task"):
        Run.from_token(other.token, task=run.task_id)
    forged = Run(run.task_id, run.number + 1)  # as if the signature had been right
    assert call(forged, tool, key="forged").ignored
    assert tool.writes == 0
    assert Run.from_token(token).context() == ["kept"]


def test_row_13_nothing_is_left_over(run: Run, start: Start, style: Style) -> None:
    before, connections = threads(), database_connections()
    for number in range(20):
        assert start(run, style(Counting("a")), key=f"k{number}").result(HANG_GUARD).accepted
    assert start(run, araising, key="bad").result(HANG_GUARD).failed
    assert left_over() == {}
    sending.close()
    wake.close()

    def ours() -> list[str]:
        return [thread.name for thread in threads() - before if thread.name.startswith("agentstop-")]

    # One is for the process, and waits for its end; a thread that was told to end may take a moment.
    eventually(lambda: ours() in ([], ["agentstop-exit"]), True)
    eventually(lambda: database_connections() <= connections, True)  # fewer, where one was just being closed


def test_both_numbers_are_told_from_one_run(
    ann: User, start: Start, call: Callable[..., Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    """R41: stale results admitted, and external writes after the stop, whatever they really were."""
    run, tool = begin("write a report", owner=ann), Pending("old tool result")
    caller = start(run, tool)
    tool.wait_until_entered()
    stop(run.task_id)
    written = tool.writes
    outcome = caller.result(HANG_GUARD)
    newer = begin(task_of(run), by=ann)
    assert call(newer, Counting("fresh result"), key="fresh").accepted
    tool.release()
    sending.close()
    print(f"caller outcome: {outcome.outcome}")  # noqa: T201  the report that refuses to flatter
    print(f"external writes after stop: {tool.writes - written}")  # noqa: T201
    print(f"old context entries: {len(run.context())}")  # noqa: T201
    print(f"new context: {json.dumps(newer.context())}")  # noqa: T201
    assert capsys.readouterr().out.splitlines() == [
        "caller outcome: ignored",
        "external writes after stop: 1",
        "old context entries: 0",
        'new context: ["fresh result"]',
    ]
