"""`manage.py agentstop_worker`: does the follow-up work of `turns`, until it is told to end."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agentstop import freeze, reconcile, sending, unseen, wake
from agentstop.turns import FollowUps


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
