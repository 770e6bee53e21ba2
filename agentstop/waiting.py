"""Waiting while a task is paused: until it is resumed, or over. No thread of a pool waits for a coroutine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from agentstop import conf, database, wake
from agentstop.models import Task
from agentstop.sending import in_domain
from agentstop.states import TaskState


def until_resumed(task_id: int) -> None:
    """Block until the task is no longer paused: resumed, stopped or finished."""
    woken = threading.Event()
    unsubscribe = wake.subscribe(_about(task_id, woken.set))
    try:
        while _is_paused(task_id):
            woken.wait(conf.SWEEP)
            woken.clear()
    finally:
        unsubscribe()


async def auntil_resumed(task_id: int) -> None:
    """As `until_resumed`."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(woken.set)

    unsubscribe = await in_domain(wake.subscribe, _about(task_id, tell))
    try:
        while await in_domain(_is_paused, task_id):
            try:
                await asyncio.wait_for(woken.wait(), conf.SWEEP)
            except TimeoutError:
                continue  # a lost wake is made good by another look
            woken.clear()
    finally:
        unsubscribe()


def _about(task_id: int, tell: Callable[[], None]) -> wake.Subscriber:
    def hear(task_ids: frozenset[int] | None, over: bool) -> None:
        if task_ids is None or task_id in task_ids:
            tell()

    return hear


def _is_paused(task_id: int) -> bool:
    return Task.objects.using(database.alias()).filter(pk=task_id, state=TaskState.PAUSED).exists()
