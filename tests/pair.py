"""Two or more who begin at the same moment, trial after trial, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agentstop.runs import Run
from tests.conftest import HANG_GUARD, InThread


class Pair:
    """Their answers come in the order in which they were named."""

    def __init__(self, in_thread: InThread, *does: Callable[[Run], Any]) -> None:
        self._ring = threading.Barrier(len(does) + 1, timeout=HANG_GUARD)
        self._run: Run | None = None
        self._answers: dict[int, Any] = {}
        self._working = [in_thread(self._work, number, do) for number, do in enumerate(does)]

    def _work(self, number: int, do: Callable[[Run], Any]) -> None:
        try:
            while True:
                self._ring.wait()
                if self._run is None:
                    return
                self._answers[number] = do(self._run)
                self._ring.wait()
        except BaseException:
            self._ring.abort()
            raise

    def race(self, run: Run) -> tuple[Any, ...]:
        self._run = run
        self._ring.wait()
        self._ring.wait()
        return tuple(answer for _, answer in sorted(self._answers.items()))

    def end(self) -> None:
        self._run = None
        self._ring.wait()
        for each in self._working:
            each.result(HANG_GUARD)
