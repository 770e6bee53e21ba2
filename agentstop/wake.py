"""The wake: every process hears soon that something about a task was committed, by whichever process.

The database is the bus. PostgreSQL tells by NOTIFY, on SQLite a thread looks at the file's `data_version`. A wake only
says "look again"; a slow sweep makes good what was lost.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from agentstop import conf, database

logger = logging.getLogger(__name__)

CHANNEL = "agentstop"
LONGEST = 7_999  # bytes that a NOTIFY can carry
ANY = "*"
GATHER = 0.05  # seconds in which wakes that are not urgent are gathered into one NOTIFY
IDLE = 5.0  # seconds without a wake after which the telling thread ends
AGAIN, LONGEST_PAUSE = 0.2, 5.0  # seconds to the first and to a later try to listen after it has failed
READY = 10.0  # seconds that a subscriber waits for the listening to begin, at the most

Subscriber = Callable[[frozenset[int] | None, bool], None]
"""Called with the ids of tasks that have changed (None: any may have), and whether a run of theirs may be over."""


def notify_on_commit(task_ids: Iterable[int], *, over: bool = True) -> None:
    """Within a transaction: other processes hear of these tasks with its commit. Ends of runs cannot wait."""
    names = ",".join(map(str, task_ids))
    if names and database.is_postgresql():
        kind = "over:" if over else ""
        payload = kind + (names if len(kind + names) <= LONGEST else ANY)  # for too many: look at everything
        with database.connection().cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, payload])


def notify_any_on_commit() -> None:
    """Within a transaction: other processes hear with its commit that any task may have changed."""
    if database.is_postgresql():
        with database.connection().cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, ANY])


def announce_any() -> None:
    """After a commit: this process hears now that any task may have changed; who looks finds out which did."""
    _hub().deliver(None, False)


def announce(*task_ids: int, over: bool = False) -> None:
    """After a commit: this process hears now, others soon; of the end of a run, by the transaction's own NOTIFY."""
    _hub().announce(frozenset(task_ids), over=over)


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Hear of changes from now on; the answer is a function that ends it."""
    return _hub().subscribe(subscriber)


class Hub:
    """One for a process: its subscribers, the thread that listens, and the thread that tells others."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._subscribers: dict[int, Subscriber] = {}
        self._numbers = itertools.count()
        self._listener: threading.Thread | None = None
        self._ready = threading.Event()
        self._closed = threading.Event()
        self._teller = Teller()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        with self._lock:
            number = next(self._numbers)
            self._subscribers[number] = subscriber
            if self._listener is None:
                self._ready.clear()
                self._listener = threading.Thread(target=self._listen, name="agentstop-wake", daemon=True)
                self._listener.start()
        self._ready.wait(READY)  # listen before the subscriber takes its first look, or a change between is lost
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._subscribers.pop(number, None)

    def announce(self, task_ids: frozenset[int], *, over: bool) -> None:
        self.deliver(task_ids, over)
        if not over and database.is_postgresql():
            self._teller.tell(task_ids)

    def deliver(self, task_ids: frozenset[int] | None, over: bool) -> None:
        with self._lock:
            subscribers = list(self._subscribers.values())
        for subscriber in subscribers:
            try:
                subscriber(task_ids, over)
            except Exception:
                logger.exception("a subscriber of wakes failed", extra={"action": "wake_failed"})

    def close(self) -> None:
        """End both threads, and with them their database connections."""
        self._closed.set()
        self._teller.close()
        if self._listener is not None:
            self._listener.join(READY)

    def _over(self) -> bool:
        """Whether nobody listens any more; the next subscriber then starts a new thread."""
        with self._lock:
            if self._subscribers and not self._closed.is_set():
                return False
            self._listener = None
            return True

    def _listen(self) -> None:
        listen = _listen_postgresql if database.is_postgresql() else _watch_sqlite
        pause = AGAIN

        def ready() -> None:
            nonlocal pause
            pause = AGAIN  # what has worked in between is no longer the same trouble
            self._ready.set()

        while not self._over():
            try:
                listen(ready, self.deliver, self._over)
                return
            except Exception:
                logger.warning("listening for wakes failed; trying again", exc_info=pause == AGAIN)
                self._closed.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
            finally:
                database.connection().close()


def _listen_postgresql(ready: Callable[[], None], deliver: Subscriber, over: Callable[[], bool]) -> None:
    own = database.connection().copy()  # subscribers query on the thread's own connection meanwhile
    own.inc_thread_sharing()
    try:
        own.ensure_connection()
        raw: Any = own.connection
        raw.autocommit = True
        raw.execute(f"LISTEN {CHANNEL}")
        ready()
        deliver(None, True)  # whatever was committed while nobody listened
        swept = time.monotonic()
        while not over():
            for told in raw.notifies(timeout=0.5, stop_after=1):
                deliver(*_read(told.payload))
            if time.monotonic() - swept > conf.SWEEP:
                deliver(None, True)
                swept = time.monotonic()
    finally:
        own.close()


def _read(payload: str) -> tuple[frozenset[int] | None, bool]:
    ids = payload.removeprefix("over:")
    return None if ids == ANY else frozenset(map(int, ids.split(","))), ids != payload


def _watch_sqlite(ready: Callable[[], None], deliver: Subscriber, over: Callable[[], bool]) -> None:
    own = database.connection().copy()
    try:
        version = _data_version(own)
        ready()
        deliver(None, True)
        swept = time.monotonic()
        while not over():
            time.sleep(conf.POLL)
            seen = _data_version(own)
            if seen != version or time.monotonic() - swept > conf.SWEEP:
                version, swept = seen, time.monotonic()
                deliver(None, True)
    finally:
        own.close()


def _data_version(conn: BaseDatabaseWrapper) -> int:
    with conn.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


class Teller:
    """Passes wakes on to other processes, gathered: a NOTIFY for each gate would cost it half of its speed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._gathered: set[int] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def tell(self, task_ids: frozenset[int]) -> None:
        with self._changed:
            self._gathered |= task_ids
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="agentstop-tell", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(READY)

    def _work(self) -> None:
        try:
            while gathered := self._next():
                self._pass_on(sorted(gathered))
                time.sleep(GATHER)
        finally:
            database.connection().close()

    def _next(self) -> set[int]:
        with self._changed:
            self._changed.wait_for(lambda: self._gathered or self._closed, timeout=IDLE)
            gathered, self._gathered = self._gathered, set()
            if not gathered:
                self._thread = None
            return gathered

    def _pass_on(self, task_ids: list[int]) -> None:
        try:
            database.close_spent_connections()
            notify_on_commit(task_ids, over=False)
        except Exception:
            logger.warning("a wake was not passed on; the sweep makes it good", exc_info=True)
            database.connection().close()


_hub_lock = threading.Lock()
_current: Hub | None = None


def _hub() -> Hub:
    global _current
    with _hub_lock:
        if _current is None or _current.pid != os.getpid():
            _current = Hub()
        return _current


def close() -> None:
    """End this process's listening; the next need starts it again."""
    global _current
    with _hub_lock:
        hub, _current = _current, None
    if hub is not None and hub.pid == os.getpid():
        hub.close()


def _forked() -> None:
    global _current, _hub_lock
    _current, _hub_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)
