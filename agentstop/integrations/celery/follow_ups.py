"""The follow-up work by Celery: one job that beat sends every so often, and a hint to the workers after each stop.

Both only wake. What is due are rows: a job that is lost, late, doubled or beside an `agentstop_worker` changes nothing.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from typing import Any

from celery import Celery, Task

from agentstop import models, signals
from agentstop.pool import Pool
from agentstop.turns import FollowUps

logger = logging.getLogger(__name__)

NAME = "agentstop.follow_up"
EVERY = 2.0  # seconds between two jobs that beat sends
SHIFT = 5.0  # seconds after which a job ends, whatever a provider still owes
STALE = 60.0  # seconds after which a job that nobody has taken is dropped: newer ones are there


def set_up(app: Celery) -> None:
    """Have the application's workers and its beat do the follow-up work, and each stop send them a hint."""
    # A plain task: one of the host's own base might be retried, or acknowledged late and so delivered again.
    options = {"base": Task, "ignore_result": True, "max_retries": 0, "acks_late": False}
    app.task(follow_up, name=NAME, shared=False, **options)
    if not is_scheduled(app):
        app.add_periodic_task(EVERY, app.signature(NAME), name=NAME, expires=STALE)
    signals.tasks_stopped.connect(Hints(app).give, sender=models.Task, weak=False, dispatch_uid=NAME)


def is_scheduled(app: Celery) -> bool:
    """Whether its beat sends the job, as `set_up` or the host has it."""
    return any(entry.get("task") == NAME for entry in app.conf.beat_schedule.values())


def follow_up() -> int:
    """Cancel and look up what is due; answers of how many operations. One job at a time in a process is enough."""
    return _shifts.work(SHIFT)


class Shifts:
    """The follow-up work of this process, in which pools of threads run several jobs at once."""

    def __init__(self) -> None:
        self._work = FollowUps()
        self._lock = threading.Lock()

    def work(self, seconds: float) -> int:
        if not self._lock.acquire(blocking=False):
            self._work.woken.set()  # whoever is at it looks again
            return 0
        try:
            return self._work.shift(seconds)
        finally:
            self._lock.release()


class Hints:
    """Tells the workers that something is due, on a thread of its own: a broker that is away holds up no stop."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._start()
        os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._waits = False
        self._pool = Pool("agentstop-hint", 1)

    def give(self, **_: Any) -> None:
        """Soon, and once for all stops that are committed until it leaves."""
        with self._lock:
            if self._waits:
                return
            self._waits = True
        contextvars.Context().run(self._pool.submit, self._send)  # so it carries no run's token

    def _send(self) -> None:
        with self._lock:
            self._waits = False
        try:
            self._app.send_task(NAME, ignore_result=True, expires=STALE)
        except Exception:
            logger.warning(
                "the workers got no hint; beat makes it good", exc_info=True, extra={"action": "hint_failed"}
            )


_shifts = Shifts()


def _forked() -> None:
    global _shifts
    _shifts = Shifts()


os.register_at_fork(after_in_child=_forked)
