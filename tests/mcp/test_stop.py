"""A stop in the middle of an MCP call: what the server did, what was heard of it, and what a person reads."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop.models import ContextEntry
from agentstop.providers.mcp import McpTool
from agentstop.providers.mcp_tool import HANDSHAKE
from agentstop.runs import Run, begin
from agentstop.states import Cancellation, Verb
from agentstop.stop import stop
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.mcp.conftest import COMBINATIONS, Referee
from tests.observed import claims, of_key

pytestmark = [pytest.mark.django_db(transaction=True)]

NEVER, ASK = McpTool(cancel="never"), McpTool(cancel="ask")
NOTIFIED = [each for each in COMBINATIONS if each != ("http", "2026-07-28")]
by_message = pytest.mark.parametrize("referee", NOTIFIED, ids=[f"{a}-{b}" for a, b in NOTIFIED], indirect=True)
by_closing = pytest.mark.parametrize("referee", [("http", "2026-07-28")], ids=["http-2026-07-28"], indirect=True)
old_http = pytest.mark.parametrize("referee", [("http", HANDSHAKE)], ids=["http-2025-11-25"], indirect=True)


def label(run: Run) -> Label:
    return of_key(run.task_id, "k").label


def cancellation(run: Run) -> Cancellation:
    return of_key(run.task_id, "k").cancellation


@pytest.mark.parametrize("tool", ["sync_note", "shielded_note"])
def test_a_late_answer_is_kept_and_stays_out_of_the_context(
    tool: str, referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """R15, R26: the effect happened after the stop; its answer is the only proof, and is no result of the run."""
    referee.connect(settings, tools={tool: NEVER})
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, tool, {"name": name}, connector="mcp", key="k")
    referee.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    assert (label(run), cancellation(run)) == (Label.STILL_ACTIVE, Cancellation.UNSUPPORTED)
    referee.go(name)
    eventually(lambda: label(run), Label.COMPLETED_BEFORE)
    assert referee.did(name) == ["began", "did"]
    assert ("succeeded", "provider") in claims(of_key(run.task_id, "k").operation.pk)
    assert not ContextEntry.objects.exists()


@by_message
def test_a_cancel_is_a_message_and_silence_proves_nothing(
    referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """R13, R14: the tool gave up, and nobody says so: it is not called cancelled."""
    referee.connect(settings, tools={"async_note": ASK})
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "async_note", {"name": name}, connector="mcp", key="k", deadline=HANG_GUARD)
    referee.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    referee.wait_for("gave-up", name)
    eventually(lambda: cancellation(run), Cancellation.SENT)
    assert label(run) in (Label.STILL_ACTIVE, Label.UNKNOWN)
    assert referee.did(name) == ["began", "gave-up"]


@old_http
def test_a_server_that_says_cancelled_while_the_tool_writes_is_not_believed(
    referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """R14: -32800 is the word of the protocol's machinery, and the note is there."""
    referee.connect(settings, tools={"sync_note": ASK})
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "sync_note", {"name": name}, connector="mcp", key="k")
    referee.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    eventually(lambda: cancellation(run), Cancellation.SENT)
    referee.go(name)
    referee.wait_for("did", name)
    eventually(lambda: ("cancelled", "intermediary") in claims(of_key(run.task_id, "k").operation.pk), True)
    assert label(run) is Label.UNKNOWN


@by_closing
@pytest.mark.parametrize("tool, policy", [("async_note", ASK), ("read", McpTool())])
def test_closing_the_stream_gives_up_the_answer_and_says_so(
    tool: str, policy: McpTool, referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """A setting decides, or the hint that the tool only reads."""
    referee.connect(settings, tools={tool: policy, "quick": McpTool()})
    run = begin("a task", owner=ann)
    assert in_thread(run.call, "quick", {"name": name}, connector="mcp", key="first").result(HANG_GUARD).accepted
    caller = in_thread(run.call, tool, {"name": name}, connector="mcp", key="k")
    referee.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    referee.wait_for("gave-up", name)
    eventually(lambda: label(run), Label.UNKNOWN)
    assert cancellation(run) is Cancellation.SENT
    receipt = of_key(run.task_id, "k").operation.receipts.get(claim="lost", attempt__verb=Verb.SUBMIT)
    assert "stream was closed" in receipt.body


@by_closing
def test_without_a_setting_a_writing_tool_is_left_to_finish_where_a_cancel_would_cost_its_receipt(
    referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    referee.connect(settings)
    run = begin("a task", owner=ann)
    caller = in_thread(run.call, "async_note", {"name": name}, connector="mcp", key="k")
    referee.wait_for("began", name)
    stop(run.task_id, by=ann)
    assert caller.result(HANG_GUARD).ignored
    assert cancellation(run) is Cancellation.UNSUPPORTED
    referee.go(name)
    eventually(lambda: label(run), Label.COMPLETED_BEFORE)
    assert referee.did(name) == ["began", "did"]
