"""`manage.py agentstop_worker`: cancels and looks up what is due, until it is told to end."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from agentstop import database, reconcile, sending, wake

logger = logging.getLogger(__name__)

IDLE = 2.0  # seconds between two looks where nothing has happened


class Command(BaseCommand):
    help = "Does the follow-up work: cancel requests and look-ups that are due. Any number of workers may run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="do what is due now, and end")

    def handle(self, *, once: bool, **options: Any) -> None:
        if once:
            self.stdout.write(f"Followed up {reconcile.work()} operations.")
            return
        self._run()

    def beside(self) -> AbstractContextManager[object]:
        """What this process does beside the follow-up work; for a host whose worker has work of its own."""
        return nullcontext()

    def _run(self) -> None:
        ending, woken = threading.Event(), threading.Event()

        def end() -> None:
            ending.set()
            woken.set()

        def told(number: int, frame: FrameType | None) -> None:
            threading.Thread(target=end).start()  # this may have interrupted code that holds the events' locks

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, told)
        unsubscribe = wake.subscribe(lambda task_ids, over: woken.set())
        with self.beside():
            self.stdout.write("agentstop worker: ready")
            self.stdout.flush()
            while not ending.is_set():
                woken.wait(_turn())
                woken.clear()
        unsubscribe()
        wake.close()
        sending.close()
        self.stdout.write("agentstop worker: ended")


def _turn() -> float:
    """Do what is due; the seconds until the next look. A fault (the database restarts) ends no worker."""
    try:
        if reconcile.work():
            return 0.0
        due = reconcile.next_due()
    except Exception:
        logger.exception("the follow-up work failed; trying again", extra={"action": "follow_up_failed"})
        database.connection().close()
        return IDLE
    return IDLE if due is None else min(IDLE, max(0.0, (due - timezone.now()).total_seconds()))
