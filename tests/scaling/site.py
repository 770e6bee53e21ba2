"""The processes of that site, each started, waited for and ended by its own id; on this machine or in a namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

HANG_GUARD = 60.0  # seconds after which a process that says nothing has hung
ROOT = Path(__file__).resolve().parent.parent.parent
CELERY = ["celery", "-A", "tests.scaling.jobs"]


class Process:
    """A module run as a program; ends with this process however that ends. What it says is kept."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], ready: str, within: Sequence[str] = ()):
        self.said: list[str] = []
        self._ready_words, self._ready = ready, threading.Event()
        self._process = subprocess.Popen(
            [*within, sys.executable, "-u", "-m", "website.demo.lifeline", *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def until_ready(self) -> str:
        """The line that says so."""
        if not (self._ready.wait(HANG_GUARD) and self._line()):
            raise AssertionError(f"never was ready: {''.join(self.said)}")
        return self._line()

    def wait(self) -> int:
        """Until it has ended by itself; its exit status."""
        try:
            return self._process.wait(3 * HANG_GUARD)
        finally:
            self.end()

    def kill(self) -> None:
        """All of it at once, as when the power is gone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._gone()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(HANG_GUARD)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._gone()

    def _gone(self) -> None:
        self._process.wait(HANG_GUARD)
        self._reader.join(HANG_GUARD)
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()

    def _line(self) -> str:
        return next((line for line in self.said if self._ready_words in line), "")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line)
            if self._ready_words in line:
                self._ready.set()
        self._ready.set()  # it has ended: nobody waits for it any more


def worker(name: str, *words: str) -> list[str]:
    """A Celery worker of four threads."""
    return [*CELERY, "worker", "--pool", "threads", "-c", "4", "-n", f"{name}@scaling", "-l", "WARNING",
            "--without-gossip", "--without-mingle", *words]  # fmt: skip


def beat(folder: Path) -> list[str]:
    """Celery's beat, with what it keeps in this folder."""
    return [*CELERY, "beat", "-s", str(folder / "schedule"), "--pidfile", "", "-l", "INFO"]
