"""What stands open now, told as metrics: read from the database when an exporter asks, in a thread of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from agentstop import boards, database, telemetry
from agentstop.boards import Board
from agentstop.closing import MAY_GO_ON
from agentstop.models import Operation
from agentstop.pool import Pool
from agentstop.telemetry import UNITS, Instruments, Metric

logger = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds that an exporter is kept waiting for the database

_pools: dict[int, Pool] = {}


def open_now() -> float:
    """Operations that have left and may still have their effect."""
    return Operation.objects.using(database.alias()).filter(MAY_GO_ON).count()


def unknown_now() -> float:
    """Operations of which nobody knows the outcome."""
    return boards.rows(Board.UNKNOWN).count()


def oldest_unknown() -> float:
    """Seconds for which the oldest of these is unknown; 0 where there is none."""
    oldest = boards.standing(Board.UNKNOWN).oldest
    return 0.0 if oldest is None else max(0.0, (database.now() - oldest).total_seconds())


def due_now() -> float:
    """Operations that are due to be cancelled, looked up or folded again."""
    return Operation.objects.using(database.alias()).filter(follow_up_at__lte=database.now()).count()


READ: dict[Metric, Callable[[], float]] = {
    Metric.OPEN: open_now,
    Metric.UNKNOWN: unknown_now,
    Metric.OLDEST_UNKNOWN: oldest_unknown,
    Metric.DUE: due_now,
}


def register(instruments: Instruments | None) -> None:
    """Have these asked with each export; nothing where OpenTelemetry is not installed."""
    if instruments is None:
        return
    for metric, read in READ.items():
        instruments.meter.create_observable_gauge(metric, [_callback(metric, read)], UNITS[metric])


def _pool() -> Pool:
    """An exporter asks from any thread, also from one with a running loop; a fork has none of its parent's threads."""
    return _pools.setdefault(os.getpid(), Pool("agentstop-metrics", 1))


def _read(read: Callable[[], float]) -> float:
    reading = _pool().submit(read)
    try:
        return reading.result(PATIENCE)
    finally:
        reading.cancel()  # where it still waits for the thread nobody asks for it any more


def _callback(metric: Metric, read: Callable[[], float]) -> Callable[[Any], Iterable[Any]]:
    def ask(options: Any) -> Iterable[Any]:
        try:
            return [telemetry.observation(_read(read))]
        except Exception:  # a database that is away is told by healthz; an exporter must not fail for it
            logger.warning("a metric could not be read", exc_info=True, extra={"action": "metric_failed"})
            return []

    return ask
