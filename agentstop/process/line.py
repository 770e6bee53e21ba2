"""The child's side of a tool in a process of its own: its handle, and the line by which it asks the parent."""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from agentstop.dispatched import Dispatched
from agentstop.exceptions import AgentStopError
from agentstop.passes import Pass
from agentstop.settle import Admission, Heard, Settled
from agentstop.stop_signal import StopSignal

R = TypeVar("R")


class Line:
    """One message at a time, either way; where nobody is at the other end, this process and its group end."""

    def __init__(self, pipe: Connection, passed: Pass) -> None:
        self.signal = StopSignal(passed.request.task, passed.request.run)
        self._pipe = pipe
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._leave = threading.Event()
        threading.Thread(target=self._listen, name="agentstop-parent", daemon=True).start()

    def wait_for_leave(self) -> None:
        """Say that the function can be called, and wait until it may."""
        self.say("ready")
        self._leave.wait()

    def say(self, *message: Any) -> None:
        with self._lock:
            self._pipe.send(message)

    def ask(self, name: str, *arguments: Any) -> Any:
        """What the parent's handle answers; raises what it raises."""
        answer: Future[Any] = Future()
        number = next(self._numbers)
        self._asked[number] = answer
        self.say("asks", number, name, arguments)
        return answer.result()

    def _listen(self) -> None:
        while True:
            try:
                kind, *told = self._pipe.recv()
            except (EOFError, OSError):
                _end_the_group()
            if kind == "go":
                self._leave.set()
            elif kind == "stop":
                self.signal.set(*told)
            else:
                self._answered(*told)

    def _answered(self, number: int, fulfilled: bool, told: Any) -> None:
        answer = self._asked.pop(number)
        if fulfilled:
            answer.set_result(told)
        else:
            answer.set_exception(pickle.loads(told))  # noqa: S301  of our own parent


class Handle(Dispatched):
    """The handle that the function gets: what the parent's would do is asked of the parent."""

    def __init__(self, passed: Pass, line: Line) -> None:
        super().__init__(passed, line.signal)
        self._line = line

    def check(self) -> None:
        self._line.ask("check")

    def hand_in(self, heard: Heard, admission: Admission | None) -> Settled:
        self.keep_in_mind(heard)
        settled: Settled = self._line.ask("hand_in", heard, admission)
        return settled

    async def _aside(self, function: Callable[..., R], *arguments: Any) -> R:
        return await asyncio.to_thread(function, *arguments)


def portable(error: Exception) -> bytes:
    """An error for the other process; where it cannot be passed on, what it says."""
    try:
        told = pickle.dumps(error)
        pickle.loads(told)  # noqa: S301  our own
    except Exception:
        return pickle.dumps(AgentStopError(f"{type(error).__name__}: {error}"))
    return told


def _end_the_group() -> None:
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
