"""Each guard of the MCP provider, broken from outside: what it holds back then happens, so its tests can fail."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from agentstop.exceptions import PassExpired
from agentstop.providers import mcp_answers, mcp_http, mcp_tap
from agentstop.providers.base import Answer
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.providers.mcp_calls import Call
from agentstop.states import Claim, Source
from tests.conftest import HANG_GUARD
from tests.mcp.conftest import Referee
from tests.mcp.test_connection import Heard, context, over_some, submission

pytestmark = [pytest.mark.asyncio]
http_2025 = pytest.mark.parametrize("referee", [("http", "2025-11-25")], ids=["http-2025"], indirect=True)
stdio = pytest.mark.parametrize("referee", [("stdio", "2025-11-25")], ids=["stdio-2025"], indirect=True)
broken = pytest.mark.parametrize("whole", [True, False], ids=["whole", "broken"])


def over() -> None:
    raise PassExpired("too old")


@over_some
@broken
async def test_the_pass_at_the_door(whole: bool, referee: Referee, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R7: tested by nobody else once the call has left the gate."""
    if not whole:
        monkeypatch.setattr(Call, "leave", lambda call: setattr(call, "begun", True))
    provider = McpProvider(**referee.way)
    sent = provider.submit(submission("quick", name=name), context(before_write=over))
    told = await asyncio.gather(sent, return_exceptions=True)
    await provider.aclose()
    assert (referee.did(name), isinstance(told[0], PassExpired)) == (([], True) if whole else (["did"], False))


async def left(provider: McpProvider, referee: Referee, tool: str, name: str, heard: Heard) -> None:
    """A call whose caller has gone after it had begun."""
    caller = asyncio.ensure_future(provider.submit(submission(tool, name=name), context(heard)))
    await asyncio.to_thread(referee.wait_for, "began", name)
    caller.cancel()
    await asyncio.wait({caller})


async def until(holds: Any) -> None:
    async with asyncio.timeout(HANG_GUARD):
        while not holds():
            await asyncio.sleep(0.02)


@stdio
@broken
async def test_a_late_answer_is_heard_before_the_sdk_drops_it(
    whole: bool, referee: Referee, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R15."""
    provider, heard = McpProvider(**referee.way), Heard()
    await left(provider, referee, "sync_note", name, heard)
    if not whole:
        monkeypatch.setattr(mcp_tap.Tap, "hear", lambda tap, message: setattr(tap, "heard", tap.heard + 1))
    link = provider._link
    assert link is not None
    before = link.tap.heard
    referee.go(name)
    await until(lambda: link.tap.heard > before)
    await provider.aclose()
    assert [each.claim for each in heard] == ([Claim.SUCCEEDED] if whole else [])
    assert referee.did(name) == ["began", "did"]


@stdio
@broken
async def test_the_sdk_gives_nothing_up_that_nobody_has_decided(
    whole: bool, referee: Referee, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R30: its caller's leaving is no request to cancel; the SDK takes it for one."""
    if not whole:
        monkeypatch.setattr(mcp_tap._Outgoing, "_granted", lambda outgoing, message: True)
    provider = McpProvider(**referee.way)
    await left(provider, referee, "async_note", name, Heard())
    link = provider._link
    assert link is not None
    await until(lambda: [call.request for call in link.calls.all()] == [None])  # in the SDK nobody waits for it
    await provider.submit(submission("quick", "key-2", name=f"{name}-2"), context())
    if whole:
        referee.go(name)
    await asyncio.to_thread(referee.wait_for, "did" if whole else "gave-up", name)
    await provider.aclose()
    assert referee.did(name) == ["began", "did" if whole else "gave-up"]


@http_2025
@broken
async def test_a_machine_that_says_cancelled_is_no_provider(
    whole: bool, referee: Referee, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14: believed, every "cancelled" of the protocol's machinery would be the effect's."""
    if not whole:
        said = mcp_answers.error_answer

        def believed(error: Any, **about: Any) -> Answer:
            answer = said(error, **about)
            return Answer(answer.claim, Source.PROVIDER, body=answer.body)

        monkeypatch.setattr(mcp_tap, "error_answer", believed)
    provider = McpProvider(**referee.way, tools={"async_note": McpTool(cancel="ask")})
    caller = asyncio.ensure_future(provider.submit(submission("async_note", name=name), context()))
    await asyncio.to_thread(referee.wait_for, "began", name)
    await provider.cancel(submission("async_note", name=name), context())
    answer = await caller
    await provider.aclose()
    assert (answer.claim, answer.source) == (Claim.CANCELLED, Source.INTERMEDIARY if whole else Source.PROVIDER)


@http_2025
@broken
async def test_an_error_of_one_request_ends_no_other(
    whole: bool, referee: Referee, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R30: let through, it ends the SDK's connection, and with it what others have under way."""
    provider = McpProvider(**referee.way)
    waiting = asyncio.ensure_future(provider.submit(submission("async_note", "other", name=name), context()))
    await asyncio.to_thread(referee.wait_for, "began", name)
    send = mcp_http.ContainedTransport.handle_async_request

    async def fails(transport: mcp_http.ContainedTransport, request: Any) -> Any:
        if b"tools/call" not in request.content:
            return await send(transport, request)
        if not whole:
            raise ConnectionResetError("gone")
        transport.inner = Resetting()
        return await send(transport, request)

    with monkeypatch.context() as patch:
        patch.setattr(mcp_http.ContainedTransport, "handle_async_request", fails)
        answer = await provider.submit(submission("quick", name="x"), context())
    assert answer.claim in (Claim.LOST, Claim.UNSENT)
    referee.go(name)
    told = await waiting
    await provider.aclose()
    assert told.claim is (Claim.SUCCEEDED if whole else Claim.LOST)


class Resetting(httpx2.AsyncBaseTransport):
    """Below the transport: a connection that is reset."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise ConnectionResetError("gone")
