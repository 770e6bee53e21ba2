"""Where sends run: one loop thread a process, so that an answer outlives the caller that asked for it.

A task in the caller's own loop would die with `asyncio.run` or `async_to_sync`, and its receipt with it. The loop's
thread is not a daemon: the interpreter waits for it, and it drains what is under way, with a deadline.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from agentstop import conf
from agentstop.exceptions import AgentStopError
from agentstop.pool import Pool

logger = logging.getLogger(__name__)

R = TypeVar("R")

DOMAIN_THREADS = 8  # each holds a database connection while it works
BLOCKING_THREADS = 32
KEEP = 5.0  # seconds for which an idle domain thread keeps its connection
CLOSE = 5.0  # seconds that a provider has to release what it holds when the process ends


class Sender:
    """The loop thread and the two pools of one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.domain = Pool("agentstop-db", DOMAIN_THREADS, keep=KEEP)
        self.blocking = Pool("agentstop-send", BLOCKING_THREADS, nests=True)
        self.loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._ended: dict[object, Callable[[], Coroutine[Any, Any, None]]] = {}
        # Joined by threading._shutdown, also in children of multiprocessing, where atexit does not run.
        self.thread = threading.Thread(target=self._main, name="agentstop-loop", daemon=False)
        _of_loop[self.loop] = self
        self.thread.start()

    def start(self, work: Callable[[], Coroutine[Any, Any, R]]) -> Future[R]:
        """Run a coroutine on the loop to its end, whatever becomes of the caller or of the future."""
        if self._closing:
            raise AgentStopError("This process is ending: nothing more is sent from it.")
        done: Future[R] = Future()
        context = contextvars.copy_context()
        self.loop.call_soon_threadsafe(self._begin, work, done, context)
        return done

    def _begin(self, work: Callable[[], Coroutine[Any, Any, R]], done: Future[R], context: contextvars.Context) -> None:
        task = self.loop.create_task(self._finish(work, done), context=context)
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _finish(self, work: Callable[[], Coroutine[Any, Any, R]], done: Future[R]) -> None:
        try:
            result = await work()
        except BaseException as error:
            logger.exception("a send's own code failed", extra={"action": "send_failed"})
            if not done.cancelled():
                done.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise  # not SystemExit or KeyboardInterrupt: they would end the loop that all sends share
        else:
            if not done.cancelled():
                done.set_result(result)

    def at_end(self, owner: object, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await this once, after the sends under way, when the process ends: for sockets that are shared."""
        self._ended[owner] = close

    def close(self, *, wait: bool = True) -> None:
        """Take nothing more, wait for what is under way up to the drain's deadline, end the threads."""
        try:
            self.loop.call_soon_threadsafe(lambda: self.loop.create_task(self._drain()))
        except RuntimeError:
            return  # closed already
        if wait:
            self.thread.join(conf.DRAIN + 10)

    async def _drain(self) -> None:
        self._closing = True
        if self._open:
            await asyncio.wait(set(self._open), timeout=conf.DRAIN)
        for close in self._ended.values():
            try:
                await asyncio.wait_for(close(), CLOSE)
            except Exception:
                logger.warning("a provider did not close cleanly", exc_info=True)
        self.loop.stop()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:  # their leases decide; what was left behind at its deadline is among them
            task.cancel()
        if left:
            self.loop.run_until_complete(asyncio.wait(left, timeout=1))
        self.loop.close()
        self.domain.close(timeout=5)
        self.blocking.close()

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop thread, which must never wait."""
        return threading.current_thread() is self.thread

    @property
    def usable(self) -> bool:
        return self.pid == os.getpid() and not self._closing and not self.loop.is_closed()


_lock = threading.Lock()
_current: Sender | None = None
_watched = False  # a thread waits for the end of this process
_ending = False
_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Sender] = weakref.WeakKeyDictionary()


def sender() -> Sender:
    """This process's sender; made anew after a fork."""
    global _current, _watched
    with _lock:
        if _ending:
            raise AgentStopError("This process is ending: nothing more is sent from it.")
        if _current is None or not _current.usable:
            _current = Sender()
        if not _watched:
            _watched = True
            threading.Thread(target=_close_at_the_end, name="agentstop-exit", daemon=True).start()
        return _current


def _close_at_the_end() -> None:
    global _ending
    threading.main_thread().join()  # the interpreter, or a forked child, is about to end
    with _lock:
        _ending = True
    if _current is not None:
        _current.close(wait=False)


def close() -> None:
    """Drain and end this process's sender; the next send makes a new one."""
    global _current
    with _lock:
        ending, _current = _current, None
    if ending is not None and ending.usable:
        ending.close()


def _forked() -> None:
    global _current, _lock, _watched, _ending
    _current, _lock, _watched, _ending = None, threading.Lock(), False, False


os.register_at_fork(after_in_child=_forked)


def draining() -> bool:
    """For a coroutine of a sender's loop: whether it should end soon, since its sender does."""
    here = _of_loop.get(asyncio.get_running_loop())
    return here is not None and not here.usable


async def in_domain(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """One hop of a coroutine into the pool for database work: its own sender's, also while that one is draining."""
    here = _of_loop.get(asyncio.get_running_loop()) or sender()
    return await asyncio.wrap_future(here.domain.submit(function, *args, **kwargs))
