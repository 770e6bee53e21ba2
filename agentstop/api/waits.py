"""Requests that wait for something: bounded in time, and in how many of them a process holds at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import Field

from agentstop import waiting

R = TypeVar("R")

LONGEST = 25.0  # seconds: shorter than what stands in between waits for an answer
MOST = 100  # of a process

Wait = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]

_places = threading.BoundedSemaphore(MOST)


def until(look: Callable[[], R | None], task: int, seconds: float) -> R | None:
    """What `look` answers, asked again when something about the task was committed; None when the time is over.

    It is asked once at least, and not again where too many wait already: whoever called then comes again.
    """
    if not _places.acquire(blocking=False):
        return look()
    try:
        return waiting.until(look, task, timeout=seconds)
    except TimeoutError:
        return None
    finally:
        _places.release()
