"""What is left of calls over HTTP that nobody waits for any more: it does not grow with their number."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc

import pytest

from agentstop.providers.base import Context
from agentstop.providers.mcp import McpProvider, McpTool
from tests.conftest import HANG_GUARD
from tests.mcp.test_connection import reply, submission
from tests.providers.raw import Connection, RawServer, raw_server

MOST, ROUNDS, AT_ONCE = 20, 4, 20  # streams that are kept; rounds, once before and once measured; calls of a round
EACH = 4_000  # bytes that a call may leave behind; one that is kept holds more than ten times that
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
LISTED = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: begun\n\n"


async def never_answers(connection: Connection) -> None:
    """All but a call is answered; a call gets a stream on which nothing comes."""
    while asked := await connection.request():
        told = json.loads(asked.partition(b"\r\n\r\n")[2] or b"{}")
        if "id" not in told:
            await connection.say(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        elif told["method"] == "tools/call":
            await connection.say(STREAM)
            await connection.reader.read()
        else:
            result = HELLO if told["method"] == "initialize" else LISTED
            await connection.say(reply({"jsonrpc": "2.0", "id": told["id"], "result": result}))


async def left_alone(provider: McpProvider, number: int, *, cancelled: bool) -> None:
    """A round of calls whose callers have gone when the server has begun; `cancelled`: they are given up besides."""
    begun = asyncio.Semaphore(0)
    context = Context(before_write=begun.release, deadline=HANG_GUARD)
    asked = [submission("note", f"key-{number}-{each}") for each in range(AT_ONCE)]
    waiting = [asyncio.ensure_future(provider.submit(each, context)) for each in asked]
    for _ in waiting:
        await asyncio.wait_for(begun.acquire(), HANG_GUARD)
    for each in asked if cancelled else ():
        await provider.cancel(each, Context(before_write=lambda: None, deadline=HANG_GUARD))
    for caller in waiting:
        caller.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def still_open(server: RawServer) -> int:
    """Connections; forgets the others."""
    server.connections = [each for each in server.connections if not each.writer.is_closing()]
    while not server.ended.empty():
        server.ended.get_nowait()
    return len(server.connections)


async def growth(revision: str, *, cancelled: bool) -> float:
    """Bytes that a call leaves behind, once as many are kept as ever are."""
    async with raw_server(never_answers) as server:
        tools = {"note": McpTool(cancel="ask")}
        provider = McpProvider(url=f"{server.address}/mcp", revision=revision, tools=tools)
        held = []
        try:
            for number in range(2 * ROUNDS):
                if number == ROUNDS - 1:
                    tracemalloc.start()
                await left_alone(provider, number, cancelled=cancelled)
                async with asyncio.timeout(HANG_GUARD):
                    while still_open(server) > (0 if cancelled else MOST):
                        await asyncio.sleep(0.01)
                for _ in range(20):
                    await asyncio.sleep(0)
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        link = provider._link
        assert link is not None and len(link.calls.all()) <= MOST
        await provider.aclose()
        return (held[-1] - held[ROUNDS - 1]) / (ROUNDS * AT_ONCE)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "revision, cancelled", [("2025-11-25", False), ("2026-07-28", True)], ids=["left", "cancelled"]
)
async def test_calls_over_http_that_nobody_waits_for_are_kept_in_a_bound(
    revision: str, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R43: the oldest are let go, with their connections; what was cancelled by closing its stream leaves nothing."""
    monkeypatch.setattr("agentstop.providers.mcp_link.STREAMS", MOST)
    assert await growth(revision, cancelled=cancelled) < EACH
