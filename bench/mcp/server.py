"""An MCP server over stdio, with a tool that answers at once, and one that takes as long as it is told.

python -m bench.mcp.server
"""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import MCPServer

from bench.gate.run import ROOT

COMMAND = (sys.executable, "-m", "bench.mcp.server")
FOLDER = str(ROOT)
server = MCPServer("bench", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
async def take(seconds: float) -> str:
    """Gives up when it is asked to."""
    await asyncio.sleep(seconds)
    return "done"


if __name__ == "__main__":
    server.run("stdio")
