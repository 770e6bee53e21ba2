"""For which run the code at hand works: known to whatever it calls, in threads and coroutines of agentstop's too."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

current_run: ContextVar[Any] = ContextVar("agentstop_run", default=None)  # typed where runs are known, in `runs`
_around: ContextVar[tuple[Any, ...]] = ContextVar("agentstop_runs_around", default=())


def entered(run: Any) -> None:
    """From here on the code works for this run."""
    _around.set((*_around.get(), current_run.get()))
    current_run.set(run)


def left(run: Any) -> None:
    """The code works again for whom it did before. In a context that never entered, this says nothing."""
    around = _around.get()
    if around and current_run.get() == run:
        current_run.set(around[-1])
        _around.set(around[:-1])
