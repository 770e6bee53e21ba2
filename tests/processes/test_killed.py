"""R29: a tool that nobody can interrupt runs in a process of its own; what was killed is unknown unless proven."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.models import Receipt
from agentstop.outcomes import Outcome
from agentstop.processes import in_process
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import claims
from tests.processes import tools as apart
from tests.processes.conftest import Meeting, gone, runs
from tests.reports.acts import NOTIFY, assert_agrees, counts, long_after, operation, seen

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 1_000.0  # seconds that no test waits for


@pytest.fixture
def run(tools: None, ann: User) -> Run:
    return begin("a task", owner=ann)


def call(run: Run, send: Any, **options: Any) -> Outcome:
    return run.call("compute", connector="tools", key="k", send=send, **options)


def label(run: Run) -> Label:
    return seen(run, "k").label


STUBBORN = [apart.computes, apart.computes_in_c, apart.ignores_requests_to_end, apart.has_a_program_compute]


@pytest.mark.parametrize("tool", STUBBORN)
def test_a_tool_that_does_not_listen_frees_its_caller_at_the_stop_and_is_killed(
    tool: Any, run: Run, meeting: Meeting, in_thread: InThread
) -> None:
    """Still active until it is dead, then unknown; what it has started goes with it."""
    called = in_thread(call, run, in_process(partial(tool, place=meeting.place), kill_after=1.0))
    pids = meeting.wait()
    meeting.let_go()
    report = stop(run.task_id)
    assert report.open == (operation(run, "k").pk,)
    assert called.result(HANG_GUARD).ignored
    gone(*pids)
    eventually(lambda: label(run), Label.UNKNOWN)
    assert "was killed after the end of its run" in Receipt.objects.get().body


def test_it_is_still_active_as_long_as_it_has_time(
    run: Run, meeting: Meeting, in_thread: InThread, settings: Settings
) -> None:
    settings.AGENTSTOP_DRAIN = 0.1
    called = in_thread(call, run, in_process(partial(apart.computes, place=meeting.place), kill_after=LONG))
    (pid,) = meeting.wait()
    meeting.let_go()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    assert (label(run), runs(pid)) == (Label.STILL_ACTIVE, True)


@pytest.mark.parametrize(
    ("before", "checks", "end", "writes"),
    [
        ("the check", True, Label.NOT_SENT, 0),
        ("the check", False, Label.UNKNOWN, 0),
        ("the write", True, Label.UNKNOWN, 0),
        ("nothing", True, Label.UNKNOWN, 1),
    ],
)
def test_what_was_killed_is_unknown_unless_it_was_never_let_through_and_the_provider_tells_the_rest(
    before: str, checks: bool, end: Label, writes: int, sandbox: SandboxClient, ann: User, meeting: Meeting,
    in_thread: InThread,
) -> None:  # fmt: skip
    run = begin("Notify", owner=ann)
    sandbox.hold("accepted", "k")
    tool = partial(apart.posts, place=meeting.place, address=sandbox.address, text="k", before=before)
    send = in_process(tool, kill_after=0.0, checks=checks)
    called = in_thread(run.call, NOTIFY, connector="sandbox", key="k", send=send)
    if before == "nothing":
        sandbox.wait("accepted", "k")
    else:
        meeting.wait()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    eventually(lambda: label(run), end)
    sandbox.release("accepted", "k")
    if writes:
        sandbox.settled("k")
    long_after(run)
    while work():
        pass
    assert label(run) is (Label.COMPLETED_BEFORE if writes else Label.NOT_SENT)
    assert counts(sandbox, run, "k")["writes"] == writes
    assert_agrees(sandbox, run)


def test_without_asking_what_was_let_through_something_made_would_read_not_sent(
    sandbox: SandboxClient, ann: User, meeting: Meeting, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(Dispatched, "let_through", False)
    run = begin("Notify", owner=ann)
    sandbox.hold("effect", "k")
    tool = partial(apart.posts, place=meeting.place, address=sandbox.address, text="k", before="nothing")
    send = in_process(tool, kill_after=0.0, checks=True)
    in_thread(run.call, NOTIFY, connector="sandbox", key="k", send=send)
    sandbox.wait("effect", "k")
    stop(run.task_id)
    eventually(lambda: label(run), Label.NOT_SENT)
    with pytest.raises(AssertionError, match="was made 1 times"):
        assert_agrees(sandbox, run)


def test_what_it_sends_between_the_stop_and_its_end_is_a_receipt(
    sandbox: SandboxClient, ann: User, meeting: Meeting, in_thread: InThread
) -> None:
    """R26: the caller is free, the answer is kept, and admitted nowhere."""
    run = begin("Notify", owner=ann)
    tool = partial(apart.posts_after_the_stop, place=meeting.place, address=sandbox.address, text="k")
    called = in_thread(run.call, NOTIFY, connector="sandbox", key="k", send=in_process(tool, kill_after=LONG))
    meeting.wait()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    meeting.let_go()
    eventually(lambda: label(run), Label.COMPLETED_BEFORE)
    assert (run.context(), counts(sandbox, run, "k")["writes"]) == ([], 1)
    assert_agrees(sandbox, run)


def test_the_check_in_the_child_refuses_after_the_stop(run: Run, meeting: Meeting, in_thread: InThread) -> None:
    called = in_thread(call, run, in_process(partial(apart.tries_after_the_stop, place=meeting.place), kill_after=LONG))
    meeting.wait()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    meeting.let_go()
    eventually(lambda: label(run), Label.NOT_SENT)


def test_one_that_gives_up_when_told_is_believed_if_it_declares_so(
    run: Run, meeting: Meeting, in_thread: InThread
) -> None:
    tool = in_process(partial(apart.gives_up_when_told, place=meeting.place), kill_after=LONG)
    called = in_thread(call, run, tool, on_stop="cancel")
    meeting.wait()
    meeting.let_go()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    eventually(lambda: label(run), Label.GIVEN_UP)


@pytest.mark.parametrize(
    ("claim", "end"),
    [("accepted", Label.STILL_ACTIVE), ("succeeded", Label.COMPLETED_BEFORE), ("failed", Label.FAILED)],
)
def test_what_it_has_handed_in_before_it_was_killed_counts(
    claim: str, end: Label, run: Run, meeting: Meeting, in_thread: InThread
) -> None:
    tool = partial(apart.hands_in_and_computes, place=meeting.place, claim=claim)
    in_thread(call, run, in_process(tool, kill_after=0.0))
    (pid,) = meeting.wait()
    meeting.let_go()
    stop(run.task_id)
    gone(pid)
    sending.close()
    assert label(run) is end


ENDS = {
    apart.ends_by_itself: "ended with code 3",
    apart.violates_the_memory: "ended by signal 11",
    apart.is_ended_by_the_system: "ended by signal 9",
}


@pytest.mark.parametrize("tool", ENDS)
def test_a_process_that_ends_without_a_word_is_lost(tool: Any, run: Run) -> None:
    outcome = call(run, in_process(tool))
    assert outcome.failed
    assert f"its process {ENDS[tool]} without a word about its effect" in Receipt.objects.get().body
    assert (claims(operation(run, "k").pk), label(run)) == ([("lost", "sender")], Label.UNKNOWN)


def test_at_its_deadline_it_is_killed_and_what_was_never_let_through_is_not_sent(
    run: Run, meeting: Meeting, in_thread: InThread
) -> None:
    """R43. The caller hears at the deadline that nothing is known; the proof comes with the process's end."""
    tool = in_process(partial(apart.computes, place=meeting.place), checks=True)
    called = in_thread(call, run, tool, deadline=8.0)
    (pid,) = meeting.wait()
    meeting.let_go()
    assert called.result(HANG_GUARD).failed
    gone(pid)
    eventually(lambda: sorted(claims(operation(run, "k").pk)), [("lost", "sender"), ("unsent", "sender")])
    assert label(run) is Label.NOT_SENT


def test_a_stop_while_it_starts_calls_nothing(run: Run, meeting: Meeting, in_thread: InThread) -> None:
    send = in_process(partial(apart.needs, argument=apart.Held(meeting.place)), kill_after=LONG)
    called = in_thread(call, run, send)
    (pid,) = meeting.wait()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    meeting.let_go()
    gone(pid)
    eventually(lambda: label(run), Label.NOT_SENT)


def test_an_async_run_waits_for_it_without_a_blocked_loop(run: Run, meeting: Meeting, in_thread: InThread) -> None:
    async def agent() -> Outcome:
        send = in_process(partial(apart.returns_async, place=meeting.place))
        return await run.acall("compute", connector="tools", key="k", send=send)

    called = in_thread(asyncio.run, agent())
    meeting.wait()
    meeting.let_go()
    outcome = called.result(HANG_GUARD)
    assert (outcome.accepted, outcome.result) == (True, "done")
    assert claims(operation(run, "k").pk)[:3] == [
        ("progress", "provider"),
        ("accepted", "provider"),
        ("succeeded", "provider"),
    ]
    assert run.context() == ["done"]
