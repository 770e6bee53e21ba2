"""The provider contract, put to the MCP provider over each transport and in both revisions: by calls, and by tasks."""

from __future__ import annotations

import asyncio

import pytest

from agentstop.providers.base import Capability, Disconnect
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.testing.contract import checks
from agentstop.testing.contract.suite import ProviderContract
from agentstop.testing.contract.trial import NotTried, Subject
from agentstop.words.capability_words import describe
from tests.mcp.playing import Playing


class TestCalls(ProviderContract):
    @pytest.fixture
    def subject(self, playing: Playing) -> Subject:
        return playing.subject("play")


class TestTasks(ProviderContract):
    @pytest.fixture
    def subject(self, playing: Playing) -> Subject:
        return playing.subject("job")


@pytest.mark.parametrize(
    "action, reason, cannot",
    [
        (
            "play",
            "its record says that it cannot be asked",  # the protocol has no question about a call that is no task
            [checks.what_was_done_is_found, checks.a_look_up_has_no_effect_and_finds_nothing_where_nothing_is],
        ),
        (
            "job",
            "there is no reference of what was never sent",  # its server names the task
            [checks.a_look_up_has_no_effect_and_finds_nothing_where_nothing_is],
        ),
    ],
)
@pytest.mark.parametrize("playing", [("http", "2026-07-28")], ids=["http-2026"], indirect=True)
def test_only_what_the_protocol_has_no_question_for_is_skipped(
    playing: Playing, action: str, reason: str, cannot: list[checks.Check]
) -> None:
    skipped = {}
    for check in checks.CHECKS:
        try:
            asyncio.run(checks.put_to(check, playing.subject(action)))
        except NotTried as why:
            skipped[check] = str(why)
    assert skipped == dict.fromkeys(cannot, reason)


@pytest.mark.parametrize(
    "transport, revision, meaning",
    [
        ("stdio", "2025-11-25", Disconnect.UNKNOWN),
        ("stdio", "2026-07-28", Disconnect.UNKNOWN),
        ("http", "2025-11-25", Disconnect.GOES_ON),
        ("http", "2026-07-28", Disconnect.CANCELS),
        ("http", None, Disconnect.UNKNOWN),  # until it is known what is spoken
    ],
)
def test_the_record_tells_what_the_protocol_makes_of_a_lost_connection(
    transport: str, revision: str | None, meaning: Disconnect
) -> None:
    """R18: the revisions contradict each other; what an operator claims is left as it is."""
    way = {"url": "http://127.0.0.1:9/mcp"} if transport == "http" else {"command": ["server"]}
    claimed = McpTool(capability=Capability(disconnect=Disconnect.CANCELS))
    provider = McpProvider(**way, revision=revision, tools={"plain": McpTool(), "claimed": claimed})
    assert provider.capability("plain").disconnect is meaning
    assert provider.capability("claimed").disconnect is Disconnect.CANCELS


def test_of_a_task_that_is_gone_the_record_does_not_say_that_nothing_was_done() -> None:
    """R18, R22: it can only be asked by its reference, so it has begun."""
    provider = McpProvider(command=["server"], tools={"job": McpTool(task=True)})
    told = " ".join(each.text for each in describe(provider.capability("job")))
    assert "nothing was done" not in told
    assert "When it knows that reference no more, nobody knows what became of it." in told
