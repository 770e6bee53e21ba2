"""A block that works for a run without being its end: for jobs, of which a run has many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from agentstop import current
from agentstop.alive import beats
from agentstop.runs import Run
from agentstop.sending import in_domain
from agentstop.stop_signal import watch


@contextmanager
def working(run: Run) -> Iterator[Run]:
    """In the block the run is the `current_run`, a stop is heard, and its process is known to live.

    The run goes on after the block, whatever it is left by: end it by `run.finish()`, or by its own `with` block.
    """
    _begin(run)
    current.entered(run)
    try:
        yield run
    finally:
        current.left(run)
        _end(run)


@asynccontextmanager
async def aworking(run: Run) -> AsyncIterator[Run]:
    """As `working`."""
    await in_domain(_begin, run)
    current.entered(run)
    try:
        yield run
    finally:
        current.left(run)
        await in_domain(_end, run)


def _begin(run: Run) -> None:
    watch().hold(run.task_id, run.number)
    beats().hold(run.task_id, run.number)


def _end(run: Run) -> None:
    watch().release(run.stop_signal)
    beats().release(run.task_id, run.number)
