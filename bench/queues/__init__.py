"""What a gated job costs beside the same job of the queue alone: Celery on a Redis, and Django's tasks."""

from __future__ import annotations

from bench.gate.figures import Part
from bench.gate.run import on_both

SECONDS = 60.0  # no round is begun after so long, on both databases together


def everything(rounds: int, calls: int) -> list[Part]:
    """Each queue on both databases, as often as there is time for."""
    return [
        part for queue in ("celery", "django") for part in on_both(f"bench.queues.{queue}", [rounds, calls], SECONDS)
    ]
