"""A real MCP server with the official SDK, in a process of its own: `python -m tests.mcp.server stdio|http FOLDER`.

What its tools did is in FOLDER/ledger, one line each, written by the tool itself: the referee. A tool goes on once
FOLDER/go-NAME is there. Over HTTP it prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

FOLDER = Path(sys.argv[2])
server = MCPServer("tests", log_level="CRITICAL")


def note(what: str, name: str) -> None:
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{what} {name}\n")


def may_go_on(name: str) -> bool:
    return (FOLDER / f"go-{name}").exists()


async def until_told(name: str) -> None:
    try:
        while not may_go_on(name):
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note("gave-up", name)
        raise


@server.tool()
def sync_note(name: str) -> str:
    """Cannot be interrupted."""
    note("began", name)
    while not may_go_on(name):
        time.sleep(0.01)
    note("did", name)
    return f"noted {name}"


@server.tool()
async def async_note(name: str) -> str:
    """Is interrupted where it waits."""
    note("began", name)
    await until_told(name)
    note("did", name)
    return f"noted {name}"


@server.tool()
async def shielded_note(name: str) -> str:
    """Hears of nothing until it is done."""
    note("began", name)
    with anyio.CancelScope(shield=True):
        await until_told(name)
        note("did", name)
    return f"noted {name}"


@server.tool()
async def step_note(name: str, ctx: Context) -> str:
    """Reports progress while it waits, and ignores being cancelled."""
    note("began", name)
    step = 0
    with anyio.CancelScope(shield=True):
        while not may_go_on(name):
            step = min(step + 1, 99)
            await ctx.report_progress(step, 100)
            await asyncio.sleep(0.05)
        note("did", name)
    return f"noted {name}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def read(name: str) -> str:
    """A read that takes as long as it is told."""
    note("began", name)
    await until_told(name)
    return f"read {name}"


@server.tool()
def slow_sync(seconds: float) -> str:
    """For the probe, which has no barriers: takes its time, and cannot be interrupted."""
    time.sleep(seconds)
    note("did", "slow")
    return "noted"


@server.tool()
async def slow_async(seconds: float) -> str:
    await asyncio.sleep(seconds)
    note("did", "slow")
    return "noted"


@server.tool()
async def quick(name: str) -> str:
    note("did", name)
    return f"noted {name}"


@server.tool()
async def told(ctx: Context) -> dict[str, str]:
    """What came with the call in `_meta`."""
    meta = ctx.request_context.meta or {}
    return {str(key): str(value) for key, value in dict(meta).items()}


def held_at(point: str, name: str) -> None:
    """For the race runner: says that it has come there, and goes on when nothing holds it there."""
    note(f"at-{point}", name)
    while (FOLDER / f"hold-{point}").exists():
        time.sleep(0.01)


@server.tool()
def raced(name: str) -> str:
    """Cannot be interrupted, and is held where a race wants it."""
    held_at("received", name)
    held_at("accepted", name)
    note("did", name)
    held_at("effect", name)
    note("answers", name)
    return f"noted {name}"


@server.tool()
async def broken(name: str) -> str:
    """Did it, and then fails."""
    note("did", name)
    raise ValueError("it went wrong half-way")


@server.tool()
async def large(size: int) -> str:
    return "x" * size


@server.tool()
async def die(name: str) -> str:
    note("did", name)
    os._exit(1)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)  # noqa: T201  whoever started it reads this
        app = server.streamable_http_app()
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
