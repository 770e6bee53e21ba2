"""Threads that know of freezes what a process of their own would: what each has read itself, and no more.

And who waits.
"""

from __future__ import annotations

import threading

import pytest

from agentstop import database, frozen
from agentstop.frozen import Known


class Apart:
    """In place of what the process has read: each thread has its own."""

    def __init__(self) -> None:
        self._own = threading.local()

    def get(self, alias: str) -> Known | None:
        found: Known | None = vars(self._own).get(alias)
        return found

    def __setitem__(self, alias: str, known: Known) -> None:
        vars(self._own)[alias] = known


def know_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, in this test."""
    monkeypatch.setattr(frozen, "_known", Apart())


def waiting_for_locks() -> int:
    """How many connections wait for another one's lock, on PostgreSQL. Outside of transactions, which see the past."""
    with database.connection().cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])
