"""Bounded pools of plain threads, which still take work while the interpreter is ending."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import close_old_connections, connections

from agentstop import database

R = TypeVar("R")

_within: contextvars.ContextVar[Pool | None] = contextvars.ContextVar("agentstop_pool", default=None)

_Job = tuple[Future[Any], contextvars.Context, Callable[[], Any]]


class Pool:
    """Runs functions on at most `size` threads, each with database connections of its own.

    `keep`: seconds for which a thread with nothing to do keeps them; without it they are closed as after a request.
    `nests`: what is handed in on behalf of a function that it runs gets a thread of its own, since that one may wait
    for it, and all threads would wait for ever. Not a ThreadPoolExecutor: that refuses work once the interpreter begins
    to exit, which is when the last receipts are written.
    """

    def __init__(self, name: str, size: int, *, keep: float | None = None, nests: bool = False) -> None:
        self.name = name
        self.size = size
        self.keep = keep
        self.nests = nests
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._free = 0  # threads with nothing to do, less the jobs that wait for one

    def submit(self, function: Callable[..., R], *args: Any, **kwargs: Any) -> Future[R]:
        """The future of `function(*args, **kwargs)`, run in a copy of the caller's context variables."""
        future: Future[R] = Future()
        context = contextvars.copy_context()
        if self.nests and _within.get() is self:
            job = (future, context, lambda: function(*args, **kwargs))
            threading.Thread(target=self._work_once, args=(job,), name=f"{self.name}-within", daemon=True).start()
            return future
        if self.nests:
            context.run(_within.set, self)
        self._jobs.put((future, context, lambda: function(*args, **kwargs)))
        with self._lock:
            self._free -= 1
            if self._free < 0 and len(self._threads) < self.size:
                self._free += 1
                name = f"{self.name}-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def close(self, timeout: float | None = None) -> None:
        """Let the threads end when everything handed in so far is done; wait so many seconds for that, if given."""
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        if timeout is not None:
            for thread in threads:
                thread.join(timeout)

    def _work_once(self, job: _Job) -> None:
        _run(*job, close_old_connections)
        connections.close_all()

    def _work(self) -> None:
        tidy = close_old_connections if self.keep is None else database.close_spent_connections
        while (job := self._next()) is not None:
            _run(*job, tidy)
            del job
            with self._lock:
                self._free += 1
        connections.close_all()

    def _next(self) -> _Job | None:
        if self.keep is not None and database.has_connections():
            try:
                return self._jobs.get(timeout=self.keep)
            except queue.Empty:
                connections.close_all()
        return self._jobs.get()


def _run(
    future: Future[Any], context: contextvars.Context, function: Callable[[], Any], tidy: Callable[[], None]
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    context.run(tidy)
    try:
        result = context.run(function)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        context.run(tidy)
