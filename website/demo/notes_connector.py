"""The connector to the demo's MCP server, as settings describe it."""

from __future__ import annotations

from typing import Any

from agentstop.providers.mcp_tool import HANDSHAKE, McpTool, Policy


def notes_connector(address: str) -> dict[str, Any]:
    """An entry of `AGENTSTOP_CONNECTORS`: reading is given up when the task is stopped, writing is left to finish."""
    return {
        "PROVIDER": "agentstop.providers.mcp.McpProvider",
        "OPTIONS": {
            "url": f"{address}/mcp",
            "revision": HANDSHAKE,
            "tools": {"read_sources": McpTool(cancel=Policy.ASK), "write_note": McpTool(cancel=Policy.NEVER)},
        },
    }
