"""Servers that answer twice, with another id, never, or nonsense; that die; tasks whose server says what is not so."""

from __future__ import annotations

import codecs

import pytest
from django.contrib.auth.models import User

from agentstop import connectors, reconcile
from agentstop.models import Operation
from agentstop.providers import mcp_lines
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.providers.mcp_answers import result_answer
from agentstop.runs import Run, begin
from agentstop.states import Cancellation, Claim, OperationState
from agentstop.stop import stop
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.mcp.conftest import Referee
from tests.observed import claims, of_key

pytestmark = [pytest.mark.django_db(transaction=True)]


def receipts(run: Run, key: str = "k") -> list[tuple[str, str]]:
    return claims(of_key(run.task_id, key).operation.pk)


def ref(run: Run) -> str | None:
    return Operation.objects.filter(task=run.task_id).values_list("ref", flat=True).first()


def state(run: Run, key: str = "k") -> OperationState:
    return of_key(run.task_id, key).state


def test_a_second_answer_is_a_receipt_too(raw: Referee, name: str, in_thread: InThread, ann: User) -> None:
    """R15."""
    run = begin("a task", owner=ann)
    outcome = in_thread(run.call, "twice", {"name": name}, connector="mcp", key="k").result(HANG_GUARD)
    assert (outcome.accepted, outcome.result) == (True, "first")
    eventually(lambda: receipts(run), [("succeeded", "provider")] * 2)


def test_what_answers_with_another_id_or_never_is_unknown_at_the_deadline(
    raw: Referee, name: str, in_thread: InThread, ann: User
) -> None:
    """R12, R43: nothing is guessed from an answer that names another request."""
    run = begin("a task", owner=ann)
    calls = [
        in_thread(run.call, tool, {"name": name}, connector="mcp", key=tool, deadline=1.5)
        for tool in ("other_id", "never")
    ]
    assert all(call.result(HANG_GUARD).failed for call in calls)
    assert [state(run, key) for key in ("other_id", "never")] == [OperationState.UNKNOWN] * 2


@pytest.mark.parametrize("tool", ["nonsense", "wrong"])
def test_an_answer_that_proves_nothing_makes_it_unknown(
    tool: str, raw: Referee, name: str, in_thread: InThread, ann: User
) -> None:
    run = begin("a task", owner=ann)
    assert in_thread(run.call, tool, {"name": name}, connector="mcp", key="k").result(HANG_GUARD).failed
    assert state(run) is OperationState.UNKNOWN


def test_progress_after_a_cancel_says_that_it_goes_on(raw: Referee, name: str, in_thread: InThread, ann: User) -> None:
    """R15: the SDK drops it, since nobody waits any more."""
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "steps", {"name": name}, connector="mcp", key="k")
    raw.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    eventually(lambda: of_key(run.task_id, "k").cancellation, Cancellation.SENT)
    asked = of_key(run.task_id, "k").operation
    sent = asked.tries.get(verb="cancel").passed_at
    eventually(lambda: asked.receipts.filter(claim="progress", seen_at__gt=sent).exists(), True)
    assert of_key(run.task_id, "k").label is Label.STILL_ACTIVE
    raw.go(name)
    eventually(lambda: of_key(run.task_id, "k").label, Label.COMPLETED_BEFORE)
    assert raw.did(name) == ["began", "did"]


def test_a_dead_server_makes_its_open_calls_unknown_and_the_next_call_starts_it_anew(
    raw: Referee, name: str, in_thread: InThread, ann: User
) -> None:
    """R22."""
    run = begin("a task", owner=ann)
    waiting = in_thread(run.call, "never", {"name": name}, connector="mcp", key="k", deadline=HANG_GUARD)
    raw.wait_for("began", name)
    dying = in_thread(run.call, "dies", {"name": "x"}, connector="mcp", key="dies", deadline=HANG_GUARD)
    assert dying.result(HANG_GUARD).failed and waiting.result(HANG_GUARD).failed
    for key in ("k", "dies"):
        assert state(run, key) is OperationState.UNKNOWN
        assert "onnection" in of_key(run.task_id, key).operation.receipts.get(claim="lost").body
    again = in_thread(run.call, "twice", {"name": "y"}, connector="mcp", key="again").result(HANG_GUARD)
    assert again.accepted


def test_a_server_that_dies_on_the_cancel_leaves_it_unknown(
    raw: Referee, name: str, in_thread: InThread, ann: User
) -> None:
    """R12, R22: that it ended proves nothing about the effect, and the next task starts it anew."""
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "dies_on_cancel", {"name": name}, connector="mcp", key="k", deadline=HANG_GUARD)
    raw.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    eventually(lambda: of_key(run.task_id, "k").label, Label.UNKNOWN)
    other = begin("another", owner=ann)
    assert in_thread(other.call, "twice", {"name": "y"}, connector="mcp", key="y").result(HANG_GUARD).accepted


def test_an_answer_of_200_megabytes_is_not_kept_and_harms_nobody_else(
    raw: Referee, name: str, in_thread: InThread, ann: User
) -> None:
    """R30, R43: the connection stays, and with it the calls of others."""
    run, other = begin("a task", owner=ann), begin("another", owner=ann)
    waiting = in_thread(other.call, "steps", {"name": name}, connector="mcp", key="k", deadline=HANG_GUARD)
    raw.wait_for("began", name)
    provider = connectors.get("mcp")
    assert isinstance(provider, McpProvider)
    link = provider._link
    caller = in_thread(run.call, "huge", {"name": "x"}, connector="mcp", key="k", deadline=3.0)
    assert caller.result(HANG_GUARD).failed
    assert state(run) is OperationState.UNKNOWN
    raw.go(name)
    assert waiting.result(HANG_GUARD).accepted
    assert provider._link is link and link is not None and link.usable


def test_a_server_that_changes_its_tools_meanwhile_is_taken_at_its_new_word(
    raw: Referee, in_thread: InThread, ann: User
) -> None:
    """R12, R19: what does not only read any more may have acted before its error; what is gone was not sent."""
    (raw.folder / "tools").write_text("errs reads\nchanges writes\n")
    run = begin("a task", owner=ann)

    def call(tool: str, key: str) -> OperationState:
        in_thread(run.call, tool, {"name": "x"}, connector="mcp", key=key).result(HANG_GUARD)
        return state(run, key)

    assert call("errs", "first") is OperationState.FAILED
    (raw.folder / "tools").write_text("errs writes\nchanges writes\n")
    assert call("changes", "change") is OperationState.SUCCEEDED
    assert call("errs", "second") is OperationState.UNKNOWN
    (raw.folder / "tools").write_text("changes writes\n")
    assert call("changes", "change again") is OperationState.SUCCEEDED
    assert call("errs", "third") is OperationState.NOT_SENT


def test_a_line_is_held_no_longer_than_its_cap() -> None:
    """R43: what is too long is gone as it comes, and the next line is whole; broken characters end nothing."""
    mcp_lines.cap.set(10)
    lines = codecs.getincrementaldecoder(mcp_lines.NAME)("replace")
    assert [lines.decode(each) for each in (b"ab", b"cd\nef\xff", b"\n")] == ["", "abcd\n", "ef\ufffd\n"]
    for _ in range(100):
        assert lines.decode(b"x" * 9) == ""
        assert isinstance(lines, mcp_lines.Lines) and lines.held <= 10
    assert lines.decode(b"\nnext\n") == "next\n"


class TestTasks:
    def test_a_task_is_followed_to_its_result(self, raw: Referee, name: str, in_thread: InThread, ann: User) -> None:
        run = begin("a task", owner=ann)
        caller = in_thread(run.call, "job", {"name": name}, connector="mcp", key="k")
        eventually(lambda: ref(run), f"task-{name}")
        raw.go(name)
        assert caller.result(HANG_GUARD).result == "the job is done"

    def test_a_ticket_of_what_is_over_already_is_asked_for_its_result(self) -> None:
        """R19: without the result it is no success that an agent could go on with."""
        ticket = {"taskId": "t-1", "status": "completed"}
        for result in ({"task": ticket}, {"resultType": "task", **ticket}):
            answer = result_answer(McpTool(task=True), result)
            assert (answer.claim, answer.ref) == (Claim.ACCEPTED, "t-1")

    def test_a_task_that_its_server_calls_cancelled_may_have_had_its_effect(
        self, raw: Referee, name: str, in_thread: InThread, ann: User
    ) -> None:
        """R14: acknowledged and reported, and the handler writes all the same."""
        run = begin("a task", owner=ann)
        caller = in_thread(run.call, "stubborn_job", {"name": name}, connector="mcp", key="k")
        eventually(lambda: ref(run), f"task-{name}")
        stop(run.task_id, by=ann)
        assert caller.result(HANG_GUARD).ignored
        raw.wait_for("cancelled", name)
        raw.go(name)
        raw.wait_for("did", name)
        eventually(lambda: ("cancelled", "intermediary") in receipts(run), True)
        eventually(lambda: of_key(run.task_id, "k").label, Label.UNKNOWN)
        assert of_key(run.task_id, "k").cancellation is Cancellation.ACKNOWLEDGED

    def test_a_task_that_its_server_has_forgotten_is_unknown(
        self, raw: Referee, name: str, in_thread: InThread, ann: User
    ) -> None:
        """R22: not failed, and not "not sent"."""
        run = begin("a task", owner=ann)
        caller = in_thread(run.call, "forgotten_job", {"name": name}, connector="mcp", key="k")
        eventually(lambda: ref(run), f"task-{name}")
        raw.go(name)
        assert caller.result(HANG_GUARD).failed
        assert state(run) is OperationState.UNKNOWN


def test_another_process_leaves_alone_what_it_cannot_reach(
    raw: Referee, name: str, in_thread: InThread, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has no part in the connection: it must not use up the tries of the process that has."""
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "never", {"name": name}, connector="mcp", key="k", deadline=HANG_GUARD)
    raw.wait_for("began", name)
    with monkeypatch.context() as patch:
        patch.setattr("agentstop.providers.mcp.McpProvider.reaches", lambda self, submission: False)
        stop(run.task_id, by=ann)
        assert caller.result(HANG_GUARD).ignored
        operation = Operation.objects.get(task=run.task_id)
        assert reconcile.work(among=[operation.pk]) == 0
        assert not operation.tries.filter(verb="cancel").exists()
        assert of_key(run.task_id, "k").cancellation is Cancellation.REQUESTED
