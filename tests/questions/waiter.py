"""A process of its own that asks and waits, to be frozen or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentstop.runs import Run
from tests.conftest import HANG_GUARD
from tests.questions.conftest import SEND_IT

ROOT = Path(__file__).resolve().parent.parent.parent


class Waiter:
    """The process, from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def wait_until_it_waits(self) -> None:
        assert self._line() == "waits"

    def got(self) -> str:
        """What its ask came to."""
        line = self._line()
        return self._line() if line == "waits" else line

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(HANG_GUARD)


@contextmanager
def waiter(database_url: str, run: Run, text: str = SEND_IT, key: str = "send") -> Iterator[Waiter]:
    environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-m", "tests.questions.waits", run.token, text, key]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Waiter(process)
        finally:
            process.kill()
