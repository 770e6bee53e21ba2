"""Where tests and the tools in their processes meet, and how a test sees that a process is gone."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HANG_GUARD
from tests.counted import eventually


class Meeting:
    """Tools come here and wait, each until it is let go."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "meeting")
        self._listener = Listener(self.place, family="AF_UNIX")
        self._came: queue.Queue[Connection] = queue.Queue()
        self._waiting: Connection | None = None
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        while True:
            try:
                self._came.put(self._listener.accept())
            except OSError:
                return

    def wait(self) -> Any:
        """What the next who comes has told: the number of its process, and more."""
        self._waiting = self._came.get(timeout=HANG_GUARD)
        return self._waiting.recv()

    def let_go(self) -> None:
        assert self._waiting is not None
        self._waiting.send("go on")
        self._waiting.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Meeting]:
    meeting = Meeting(tmp_path)
    yield meeting
    meeting.close()


def runs(pid: int) -> bool:
    """Whether the process is there, and not only its number until somebody asks for its end."""
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(told.stdout.strip()) and not told.stdout.startswith("Z")


def gone(*pids: int) -> None:
    """Wait until none of these processes is there any more."""
    for pid in pids:
        eventually(lambda pid=pid: runs(pid), False)  # type: ignore[misc]
