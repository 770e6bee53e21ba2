"""Waiting for what is committed elsewhere. No thread of a pool waits for a coroutine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from agentstop import conf, database, wake
from agentstop.models import Task
from agentstop.sending import in_domain
from agentstop.states import TaskState

R = TypeVar("R")


def until(look: Callable[[], R | None], *task_ids: int, timeout: float | None = None) -> R:
    """Block until `look` answers something; it is asked again when something about these tasks was committed.

    What it raises ends the wait. `timeout`: in seconds; then TimeoutError.
    """
    woken, over = threading.Event(), _end(timeout)
    unsubscribe = wake.subscribe(_about(task_ids, woken.set))
    try:
        while (found := look()) is None:
            woken.wait(_pause(over))
            woken.clear()
        return found
    finally:
        unsubscribe()


async def auntil(look: Callable[[], R | None], *task_ids: int, timeout: float | None = None) -> R:
    """As `until`; `look` is asked on a thread of agentstop's."""
    loop, woken, over = asyncio.get_running_loop(), asyncio.Event(), _end(timeout)

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(woken.set)
        except RuntimeError:  # the loop is gone, and who waited with it
            pass

    unsubscribe = await in_domain(wake.subscribe, _about(task_ids, tell))
    try:
        while (found := await in_domain(look)) is None:
            pause = _pause(over)
            try:
                await asyncio.wait_for(woken.wait(), pause)
            except TimeoutError:
                continue  # a lost wake is made good by another look
            woken.clear()
        return found
    finally:
        unsubscribe()


def until_resumed(task_id: int) -> None:
    """Block until the task is no longer paused: resumed, stopped or finished."""
    until(lambda: None if _is_paused(task_id) else True, task_id)


async def auntil_resumed(task_id: int) -> None:
    """As `until_resumed`."""
    await auntil(lambda: None if _is_paused(task_id) else True, task_id)


def _end(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _pause(over: float | None) -> float:
    """Seconds until the next look at the latest; TimeoutError where the time is over."""
    if over is None:
        return float(conf.SWEEP)
    left = over - time.monotonic()
    if left <= 0:
        raise TimeoutError("What was waited for has not come within the time that was given.")
    return min(left, float(conf.SWEEP))


def _about(task_ids: tuple[int, ...], tell: Callable[[], None]) -> wake.Subscriber:
    wanted = frozenset(task_ids)

    def hear(told: frozenset[int] | None, over: bool) -> None:
        if told is None or not wanted.isdisjoint(told):
            tell()

    return hear


def _is_paused(task_id: int) -> bool:
    return Task.objects.using(database.alias()).filter(pk=task_id, state=TaskState.PAUSED).exists()
