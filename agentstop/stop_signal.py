"""The stop signal: how a running agent and its tools hear, in whatever process they are, that their run is over."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from agentstop import database, wake
from agentstop.alive import RunKey
from agentstop.exceptions import AgentStopError, Finished, Refused, Stopped, Superseded
from agentstop.models import Task
from agentstop.states import TaskState

logger = logging.getLogger(__name__)


def reason_over(state: str, live_run: int | None, last_run: int, number: int) -> type[Refused] | None:
    """Why the run with this number is no longer live, or None. Pausing does not end a run."""
    if live_run == number:
        return None
    if number < last_run:
        return Superseded
    return Stopped if state == TaskState.STOPPED else Finished


class StopSignal:
    """Set once, when the run is over. `reason` is the class of refusal that says why."""

    def __init__(self, task_id: int, number: int) -> None:
        self.task_id = task_id
        self.number = number
        self.reason: type[Refused] | None = None
        self.holders = 0
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, `timeout` seconds at the most; True when it is."""
        return self._event.wait(timeout)

    def raise_if_set(self) -> None:
        """For a tool between two steps: raise Stopped, Superseded or Finished once the run is over."""
        if self.reason is not None:
            raise self.reason(
                f"Run {self.number} of task {self.task_id} is over ({self.reason.reason}): go no further."
            )

    def set(self, reason: type[Refused]) -> None:
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                logger.exception("a callback of a stop signal failed", extra={"action": "signal_failed"})

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call it when the signal is set, or at once if it is; the answer forgets the callback."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class Watch:
    """The runs that this process holds; it listens to wakes while there are any."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._signals: dict[RunKey, StopSignal] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def hold(self, task_id: int, number: int) -> StopSignal:
        """The signal of this run, kept up to date until it is released as often as it was held."""
        with self._lock:
            signal = self._signals.setdefault((task_id, number), StopSignal(task_id, number))
            signal.holders += 1
            first = signal.holders == 1
            if self._unsubscribe is None:
                self._unsubscribe = wake.subscribe(self._woken)
        if first:  # it may have ended before we listened
            try:
                self.look([signal])
            except BaseException:
                self.release(signal)
                raise
        return signal

    def signal(self, task_id: int, number: int) -> StopSignal:
        """The signal of a run that is held by somebody."""
        with self._lock:
            try:
                return self._signals[(task_id, number)]
            except KeyError:
                raise AgentStopError(
                    f"Nobody listens for run {number} of task {task_id} here. Use its stop_signal inside `with run:`."
                ) from None

    def release(self, signal: StopSignal) -> None:
        with self._lock:
            signal.holders -= 1
            if not signal.holders:
                self._signals.pop((signal.task_id, signal.number), None)
            end = None if self._signals else self._unsubscribe
            if end is not None:
                self._unsubscribe = None
        if end is not None:
            end()

    def look(self, signals: Iterable[StopSignal]) -> None:
        """Read the tasks' state, and set the signals of runs that are over."""
        waiting = [signal for signal in signals if not signal.is_set()]
        tasks = Task.objects.using(database.alias()).filter(pk__in={signal.task_id for signal in waiting})
        found = {pk: rest for pk, *rest in tasks.values_list("pk", "state", "live_run", "last_run")}
        for signal in waiting:
            if signal.task_id not in found:
                continue
            state, live_run, last_run = found[signal.task_id]
            reason = reason_over(state, live_run, last_run, signal.number)
            if reason is not None:
                signal.set(reason)

    def _woken(self, task_ids: frozenset[int] | None, over: bool) -> None:
        if not over:
            return
        with self._lock:
            signals = list(self._signals.values())
        self.look(s for s in signals if task_ids is None or s.task_id in task_ids)


_watch_lock = threading.Lock()
_current: Watch | None = None


def watch() -> Watch:
    """This process's watch; a forked child gets its own."""
    global _current
    with _watch_lock:
        if _current is None or _current.pid != os.getpid():
            _current = Watch()
        return _current


@contextmanager
def held(task_id: int, number: int) -> Iterator[StopSignal]:
    """The signal of this run for the length of a block."""
    signal = watch().hold(task_id, number)
    try:
        yield signal
    finally:
        watch().release(signal)


def _forked() -> None:
    global _current, _watch_lock
    _current, _watch_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)
