"""A server that answers twice on one stream over HTTP: the SDK closes the stream at the first answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.providers import mcp_second
from agentstop.runs import begin
from agentstop.states import OperationState
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.mcp.playing import TOOLS, Playing
from tests.observed import claims, of_key

OVER_HTTP = [("http", "2025-11-25"), ("http", "2026-07-28")]


@pytest.fixture
def connected(playing: Playing, settings: Settings, ended: None) -> Iterator[Playing]:
    options = {**playing.way, "tools": TOOLS}
    settings.AGENTSTOP_CONNECTORS = {"mcp": {"PROVIDER": "agentstop.providers.mcp.McpProvider", "OPTIONS": options}}
    playing.folder.mkdir()
    yield playing
    sending.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("playing", OVER_HTTP, ids=["2025", "2026"], indirect=True)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("heard", [True, False], ids=["heard", "broken"])
def test_a_second_answer_on_a_stream_is_kept_and_the_contradiction_shown(
    connected: Playing,
    late: bool,
    heard: bool,
    in_thread: InThread,
    ann: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R15, R16: done, and then failed, by the same server about the same call."""
    if not heard:
        monkeypatch.setattr(mcp_second.Answers, "feed", lambda answers, chunk: [])
    hold = connected.folder / "hold-second"
    if late:
        hold.touch()
    run = begin("a task", owner=ann)
    assert in_thread(run.call, "play", {"how": "twice"}, connector="mcp", key="k").result(HANG_GUARD).accepted
    hold.unlink(missing_ok=True)
    operation = of_key(run.task_id, "k").operation
    both = [("failed", "provider"), ("succeeded", "provider")]
    if not heard:
        assert claims(operation.pk) == both[1:]
        return
    eventually(lambda: sorted(claims(operation.pk)), both)
    assert of_key(run.task_id, "k").state is OperationState.UNKNOWN
    assert "s3cret-login" not in str(list(operation.receipts.values_list("body", flat=True)))


def test_the_first_answer_is_not_taken_for_a_second() -> None:
    """However its bytes are cut, and with other messages around it."""
    stream = b'event: message\r\ndata: {"method": "notifications/progress"}\r\n\r\n'
    stream += b'data: {"id": 1,\ndata: "result": {}}\n\n: still here\n\ndata: {"id": 1, "error": {"code": 1}}\n\n'
    for size in (1, 7, len(stream)):
        answers = mcp_second.Answers()
        told = [each for at in range(0, len(stream), size) for each in answers.feed(stream[at : at + size])]
        assert (answers.count, told) == (2, [{"id": 1, "error": {"code": 1}}])
