"""A server in the same process as the agent: the same gate, the same tap, one stream of messages in each direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from pytest_django.fixtures import Settings

from agentstop.runs import begin
from agentstop.states import Cancellation, Claim
from agentstop.stop import stop
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import of_key

pytest.importorskip("mcp", reason="needs the official MCP SDK: pip install 'agentstop[mcp]'")

from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.providers.mcp_answers import error_answer
from tests.mcp import here

SERVER = "tests.mcp.here.server"


@pytest.fixture(params=["never", "ask"])
def asked(request: pytest.FixtureRequest, settings: Settings, ended: None) -> Iterator[bool]:
    """The connector `here`, and whether it asks for a call to be given up; each tool waits until it may go on."""
    options = {"server": SERVER, "tools": {"write": McpTool(cancel=request.param), "regret": McpTool()}}
    settings.AGENTSTOP_CONNECTORS = {
        "here": {"PROVIDER": "agentstop.providers.mcp.McpProvider", "OPTIONS": options},
    }
    here.did.clear()
    here.began.clear()
    here.go.clear()
    yield request.param == "ask"
    here.go.set()


@pytest.mark.django_db(transaction=True)
def test_what_it_has_done_after_a_stop_is_heard_and_the_next_task_is_served(
    ann: User, asked: bool, in_thread: InThread
) -> None:
    """R14, R15: left to finish, its answer is kept; asked to give up, it says so, and writes all the same."""
    run = begin("one", owner=ann)
    calling = in_thread(run.call, "write", {"text": "a"}, connector="here", key="k")
    assert here.began.wait(HANG_GUARD)
    stop(run.task_id, by=ann)
    assert calling.result(HANG_GUARD).outcome == "ignored"
    if asked:
        eventually(lambda: of_key(run.task_id, "k").cancellation, Cancellation.SENT)
    else:
        assert of_key(run.task_id, "k").label is Label.STILL_ACTIVE
    here.go.set()
    eventually(lambda: of_key(run.task_id, "k").label, Label.UNKNOWN if asked else Label.COMPLETED_BEFORE)
    eventually(lambda: len(here.did), 1)
    with begin("two", owner=ann) as other:
        assert other.call("write", {"text": "b"}, connector="here", key="l").accepted
    assert here.did == ["wrote a for None", "wrote b for None"], "it works for whoever calls, and for no run by itself"


@pytest.mark.django_db(transaction=True)
def test_an_error_that_a_tool_can_raise_after_it_has_acted_proves_nothing(ann: User, asked: bool) -> None:
    """R12, R19: "invalid params" is what the protocol says of calls that were never begun."""
    with begin("one", owner=ann) as run:
        assert not run.call("regret", {"text": "a"}, connector="here", key="k").accepted
    assert here.did == ["wrote a"]
    assert of_key(run.task_id, "k").label is Label.UNKNOWN


@pytest.mark.parametrize(
    ("tool", "claim"),
    [(None, Claim.REFUSED), (McpTool(errors="failed"), Claim.REFUSED), (McpTool(errors="unknown"), Claim.LOST)],
)
def test_it_is_believed_of_requests_about_tasks_and_where_an_operator_says_so(
    tool: McpTool | None, claim: Claim
) -> None:
    assert error_answer({"code": -32602, "message": "Invalid params"}, tool=tool).claim is claim


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server": SERVER, "url": "http://127.0.0.1:1/mcp"}, "needs one of url=, command= and server="),
        ({}, "needs one of url=, command= and server="),
        ({"server": "tests.mcp.here.nothing"}, "cannot be imported"),
        ({"server": "tests.mcp.here.did"}, "must be an MCPServer or Server"),
        ({"server": SERVER, "revision": "2026-07-28"}, "speaks 2025-11-25 alone"),
    ],
)
def test_what_cannot_be_connected_is_refused_in_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        McpProvider(**options)


def test_it_says_where_it_leads() -> None:
    assert McpProvider(server=here.server).describe() == "MCP in this process, here, revision 2025-11-25"
