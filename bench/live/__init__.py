"""From a commit to the frame on an open page, beside a bare echo; and how many changes reach many open pages."""

from __future__ import annotations

from bench.gate.figures import Part
from bench.gate.run import on_postgresql

MOST = 10  # commits of a round: a page takes ten frames a second
SECONDS = 60.0  # no round is begun after so long


def everything(rounds: int, calls: int) -> list[Part]:
    """On PostgreSQL alone: SQLite has nothing to listen to, and looks 20 times a second."""
    return [on_postgresql("bench.live.rounds", [rounds, calls], SECONDS, prepared=False)]
