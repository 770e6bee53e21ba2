"""An MCP server in this process as a transport: one stream of messages in each direction, and nothing waits between.

The SDK has one too, whose way out does not tell whether it is free.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server import MCPServer, Server
from mcp.shared.message import SessionMessage


@asynccontextmanager
async def in_this_process(server: MCPServer | Server[Any]) -> AsyncIterator[tuple[Any, Any]]:
    """What comes from it and what goes to it, while it runs on the loop at hand."""
    inner: Server[Any] = server._lowlevel_server if isinstance(server, MCPServer) else server
    going, arriving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answering, coming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with anyio.create_task_group() as tasks, going, arriving, answering, coming:
        tasks.start_soon(inner.run, arriving, answering, inner.create_initialization_options())
        try:
            yield coming, going
        finally:
            tasks.cancel_scope.cancel()
