"""The provider contract, put to the MCP provider over each transport and in both revisions: by calls, and by tasks."""

from __future__ import annotations

import asyncio

import pytest

from agentstop.testing.contract import checks
from agentstop.testing.contract.suite import ProviderContract
from agentstop.testing.contract.trial import NotTried, Subject
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
