"""Threads with a database connection each, which do things at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import connections

from agentstop.exceptions import AgentStopError
from tests.conftest import HANG_GUARD

THREADS = 4


class Crew:
    """Threads with a connection each; errors of theirs are the caller's."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS)

    def do(self, acts: Sequence[Callable[[], str]]) -> list[str]:
        """All at once behind a barrier; the words in the order of the acts."""
        barrier = threading.Barrier(len(acts), timeout=HANG_GUARD)

        def one(act: Callable[[], str]) -> str:
            barrier.wait()
            return said(act)

        return [future.result(HANG_GUARD) for future in [self.pool.submit(one, act) for act in acts]]

    def close(self) -> None:
        barrier = threading.Barrier(THREADS, timeout=HANG_GUARD)

        def leave() -> None:
            connections.close_all()
            barrier.wait()

        for future in [self.pool.submit(leave) for _ in range(THREADS)]:
            future.result(HANG_GUARD)
        self.pool.shutdown()


def said(act: Callable[[], str]) -> str:
    """The word of what came of it: a refusal is its class's name."""
    try:
        return act()
    except AgentStopError as error:
        return type(error).__name__
