"""Tools of the tests' own: they wait for the test, and keep the count of their writes themselves."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from agentstop.dispatched import Dispatched
from tests.conftest import HANG_GUARD


class Counting:
    """A tool that writes at once."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.writes = 0

    def __call__(self, op: Dispatched) -> Any:
        self.writes += 1
        return self.result

    async def asynchronous(self, op: Dispatched) -> Any:
        return self(op)


class Pending(Counting):
    """A tool that is entered, waits until the test releases it, writes and returns, or raises instead of writing."""

    def __init__(self, result: Any = None) -> None:
        super().__init__(result)
        self._entered = threading.Event()
        self._released: Future[None] = Future()

    def __call__(self, op: Dispatched) -> Any:
        self._entered.set()
        self._released.result(HANG_GUARD)
        return super().__call__(op)

    async def asynchronous(self, op: Dispatched) -> Any:
        self._entered.set()
        await asyncio.shield(asyncio.wrap_future(self._released))
        return super().__call__(op)

    def wait_until_entered(self) -> None:
        assert self._entered.wait(HANG_GUARD), "the tool was never called"

    @property
    def pending(self) -> bool:
        return self._entered.is_set() and not self._released.done()

    def release(self) -> None:
        self._released.set_result(None)

    def fail(self, error: BaseException) -> None:
        self._released.set_exception(error)


class Cooperative:
    """A tool that gives up before its write when it hears of the stop, and tells what it heard."""

    def __init__(self) -> None:
        self.writes = 0
        self.heard = ""
        self.entered = threading.Event()

    def __call__(self, op: Dispatched) -> None:
        self.entered.set()
        assert op.stop_signal.wait(HANG_GUARD), "the stop was never heard of"
        self._hear(op)
        op.stop_signal.raise_if_set()
        self.writes += 1

    async def asynchronous(self, op: Dispatched) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._hear(op)
            raise
        self.writes += 1

    def _hear(self, op: Dispatched) -> None:
        if op.stop_signal.reason is not None:
            self.heard = op.stop_signal.reason.reason
