"""The follow-up work of one process: what is due is cancelled and looked up, so much at once, a turn at a time.

A freeze whose process died before the last task was reached is put in force. Who has missed that an unknown outcome was
settled is told of by a signal.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from datetime import datetime

from django.utils import timezone

from agentstop import database, freeze, reconcile, unseen
from agentstop.passes import ticks

logger = logging.getLogger(__name__)

IDLE = 2.0  # seconds between two looks where nothing has happened
AT_ONCE = 50  # operations that are followed up at the same time


class FollowUps:
    """What this process is doing, at most so much at once. Set `woken` to have it look again."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self._open: set[Future[None]] = set()

    def turn(self) -> None:
        """Begin on what is due, and wait until there may be more. A fault (the database restarts) ends no worker."""
        self.woken.clear()
        try:
            pause = self._begin()
        except Exception:
            logger.exception("the follow-up work failed; trying again", extra={"action": "follow_up_failed"})
            database.connection().close()
            pause = IDLE
        self.woken.wait(pause)

    def shift(self, seconds: float) -> int:
        """Turns until nothing is due, at most so many seconds; of how many operations an end was waited for.

        What has not ended by then goes on, and counts against what is begun later. Raises what the database raises.
        """
        until, before, begun = ticks() + seconds, frozenset(self._open), set[Future[None]]()
        while True:
            self.woken.clear()
            pause = self._begin()
            begun |= self._open - before
            left = until - ticks()
            waits = not begun.isdisjoint(self._open)
            if left <= 0 or not (waits or pause <= 0 or self.woken.is_set()):
                return len(begun)
            self.woken.wait(min(pause, left))

    def _begin(self) -> float:
        freeze.complete()
        due = self._start()
        unseen.tell()
        return IDLE if due is None else min(IDLE, max(0.0, (due - timezone.now()).total_seconds()))

    def _start(self) -> datetime | None:
        """Follow up as much as there is room for; when more is due, None where nothing is or there is no room."""
        self._open = {future for future in self._open if not future.done()}
        if len(self._open) >= AT_ONCE:
            return None
        begun = reconcile.start(AT_ONCE - len(self._open))
        self._open.update(begun)
        for future in begun:
            future.add_done_callback(lambda _: self.woken.set())
        return reconcile.next_due()
