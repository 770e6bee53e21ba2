"""What a process holds at a moment: counted before and after, to show that nothing is left over."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection

from agentstop import sending, stop_signal, wake
from tests.conftest import HANG_GUARD


def left_over() -> dict[str, int]:
    """What ended calls still hold in this process, by kind; nothing where all is as it should be."""
    held = {
        "signals": len(stop_signal.watch()._signals),
        "subscribers": len(wake._hub()._subscribers),
        "tasks": asyncio.run_coroutine_threadsafe(_tasks(), sending.sender().loop).result(HANG_GUARD),
    }
    return {kind: count for kind, count in held.items() if count}


async def _tasks() -> int:
    """Tasks on the sender's loop other than this one, once those that are ending have ended."""
    for _ in range(3):
        await asyncio.sleep(0)
    return len(asyncio.all_tasks()) - 1


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def database_connections() -> int:
    """Open connections: on SQLite those of this process, on PostgreSQL those that the server counts."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND backend_type = 'client backend'"
            )
            return int(cursor.fetchone()[0])
    return sum(_is_open(each) for each in gc.get_objects() if issubclass(type(each), sqlite3.Connection))


def _is_open(each: sqlite3.Connection) -> bool:
    try:
        return each.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def eventually(count: Callable[[], Any], expected: Any) -> None:
    """Wait for a count that another process or the operating system moves: nothing tells us when it has."""
    pause, until = threading.Event(), time.monotonic() + HANG_GUARD
    while (seen := count()) != expected and time.monotonic() < until:
        pause.wait(0.02)
    if seen != expected:
        raise AssertionError(f"expected {expected!r}, and it stayed at {seen!r}")
