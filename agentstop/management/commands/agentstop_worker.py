"""`manage.py agentstop_worker`: cancels and looks up what is due, until it is told to end.

A freeze whose process died before the last task was reached is put in force. Who has missed that an unknown outcome was
settled is told of by a signal.
"""

from __future__ import annotations

import logging
import signal
import threading
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from agentstop import database, freeze, reconcile, sending, unseen, wake

logger = logging.getLogger(__name__)

IDLE = 2.0  # seconds between two looks where nothing has happened
AT_ONCE = 50  # operations that are followed up at the same time


class Command(BaseCommand):
    help = "Does the follow-up work: cancel requests and look-ups that are due. Any number of workers may run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do what is due now, and end")

    def handle(self, *, once: bool, **options: Any) -> None:
        if once:
            freeze.complete()
            self.stdout.write(f"Followed up {reconcile.work()} operations.")
            unseen.tell()
            return
        self._run()

    def beside(self) -> AbstractContextManager[object]:
        """What this process does beside the follow-up work; for a host whose worker has work of its own."""
        return nullcontext()

    def _run(self) -> None:
        ending, work = threading.Event(), FollowUps()

        def end() -> None:
            ending.set()
            work.woken.set()

        def told(number: int, frame: FrameType | None) -> None:
            threading.Thread(target=end).start()  # this may have interrupted code that holds the events' locks

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, told)
        unsubscribe = wake.subscribe(lambda task_ids, over: work.woken.set())
        with self.beside():
            self.stdout.write("agentstop worker: ready")
            self.stdout.flush()
            while not ending.is_set():
                work.turn()
        unsubscribe()
        wake.close()
        sending.close()
        self.stdout.write("agentstop worker: ended")


class FollowUps:
    """What this worker is doing, at most so much at once. Set `woken` to have it look again."""

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
