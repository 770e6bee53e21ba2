"""What the stop of a large family costs beside a bare UPDATE of as many rows."""

from __future__ import annotations

from bench.gate.figures import Part
from bench.gate.run import on_both

ROUNDS = 5
SECONDS = 60.0  # no round is begun after so long, on both databases together


def everything(descendants: int) -> list[Part]:
    """A family on both databases, as often as there is time for."""
    return on_both("bench.families.rounds", [descendants, ROUNDS], SECONDS)
