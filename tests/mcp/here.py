"""An MCP server that runs in the process of the tests, with what it has done and what it waits for."""

from __future__ import annotations

import threading

from mcp import MCPError
from mcp.server import MCPServer

from agentstop.runs import current_run
from tests.conftest import HANG_GUARD

server = MCPServer("here", log_level="ERROR")
did: list[str] = []
began, go = threading.Event(), threading.Event()


@server.tool()
def write(text: str) -> str:
    """A plain function, which nothing interrupts."""
    began.set()
    assert go.wait(HANG_GUARD)
    did.append(f"wrote {text} for {current_run.get()}")
    return text


@server.tool()
def regret(text: str) -> str:
    """Does it, and then says what is said of calls that were never begun."""
    did.append(f"wrote {text}")
    raise MCPError(code=-32602, message="Invalid params")
