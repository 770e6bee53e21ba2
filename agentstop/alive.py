"""Runs that a process holds are known to be alive: it says so by itself, every so often, for all of them at once.

That the process lives is all that it proves: not that its agent still thinks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db.models import Q

from agentstop import conf, database
from agentstop.models import Run

logger = logging.getLogger(__name__)

RunKey = tuple[int, int]  # task id, run number

OFTEN = timedelta(seconds=5)  # a sign of life is written down so often at the most
SHORTEST = 0.1  # seconds between two beats
BEATS = 4  # in the time of silence after which nobody is thought to be there


def beat(runs: Iterable[RunKey]) -> None:
    """Note, by the database's clock, that the processes of these runs live. Of a run that is over it says nothing more.

    Nothing else moves: a run that was stopped stays stopped. What its process has said to be its end stays that.
    """
    by_number: dict[int, list[int]] = defaultdict(list)
    for task_id, number in sorted(runs):
        by_number[number].append(task_id)
    for number, tasks in by_number.items():
        for batch in database.batches(tasks):
            _note(number, batch)


def _note(number: int, tasks: Sequence[int]) -> None:
    now = database.now()
    runs = Run.objects.using(database.alias()).filter(task__in=tasks, number=number, halted_at__isnull=True)
    # Later than now: the clock was set back since.
    runs.filter(Q(seen_at__lt=now - OFTEN) | Q(seen_at__gt=now)).update(seen_at=now)


def _try_to_beat(runs: Iterable[RunKey]) -> None:
    """No run ends for want of a sign of life: the next one makes it good."""
    try:
        beat(runs)
    except Exception:
        logger.warning("a sign of life was not stored", exc_info=True, extra={"action": "beat_failed"})


class Beats:
    """The runs that this process holds, and the thread that speaks for them while there are any."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._changed = threading.Condition()
        self._held: Counter[RunKey] = Counter()
        self._thread: threading.Thread | None = None

    def hold(self, task_id: int, number: int) -> None:
        """From now on, and until it is released as often, the run is said to be alive."""
        _try_to_beat([(task_id, number)])
        with self._changed:
            self._held[task_id, number] += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="agentstop-beat", daemon=True)
                self._thread.start()

    def release(self, task_id: int, number: int) -> None:
        with self._changed:
            self._held[task_id, number] -= 1
            if self._held[task_id, number] <= 0:
                del self._held[task_id, number]

    def close(self) -> None:
        """Hold nothing any more, and end the thread."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(10)

    def _work(self) -> None:
        while held := self._next():
            _try_to_beat(held)
            database.connection().close()  # the next one is a while ahead

    def _next(self) -> list[RunKey]:
        """What is held a moment from now; nothing, and the thread ends, where that is nothing."""
        with self._changed:
            if self._held:  # it may all have been let go of before this thread began
                self._changed.wait(max(SHORTEST, float(conf.SILENCE) / BEATS))
            if not self._held:
                self._thread = None
            return list(self._held)


_lock = threading.Lock()
_current: Beats | None = None


def beats() -> Beats:
    """This process's; a forked child begins with none, since it holds no run by itself."""
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = Beats()
        return _current


def close() -> None:
    """End this process's signs of life; the next run that is held starts them again."""
    global _current
    with _lock:
        ending, _current = _current, None
    if ending is not None and ending.pid == os.getpid():
        ending.close()


def _forked() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)
