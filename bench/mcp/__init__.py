"""What a call of an MCP tool costs by the connector, beside the SDK's own; and what cancelled calls leave behind."""

from __future__ import annotations

from bench.gate.figures import Part
from bench.gate.run import on_both

SECONDS = 60.0  # no round is begun after so long, on both databases together


def everything(rounds: int, calls: int) -> list[Part]:
    """The calls on both databases, as often as there is time for."""
    return on_both("bench.mcp.rounds", [rounds, calls], SECONDS)
