"""`manage.py demo` as a process of its own, for tests: started, spoken to, ended; and the processes below it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from website.demo.system import free_port

ROOT = Path(__file__).resolve().parent.parent
HANG_GUARD = 120.0


@dataclass
class Demo:
    """A running demo."""

    process: subprocess.Popen[str]
    address: str
    folder: Path
    greeting: str

    @property
    def people(self) -> dict[str, str]:
        passwords: dict[str, str] = json.loads((self.folder / "people.json").read_text())
        return passwords

    def children(self, words: str = "") -> list[int]:
        """The processes that it has started; with words, those whose command line has them."""
        command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return [int(line.split()[0]) for line in listed.splitlines() if words in line]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send the signal; the exit code, and what it said since the greeting."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=HANG_GUARD)
        return self.process.returncode, said


def command(*words: str) -> list[str]:
    return [sys.executable, "manage.py", "demo", *words]


def environment(database_url: str = "") -> Mapping[str, str]:
    return {**os.environ, "DATABASE_URL": database_url}


@contextmanager
def demo(folder: Path, database_url: str = "") -> Iterator[Demo]:
    """From its greeting on; ended with the block where the test did not end it."""
    port = free_port()
    words = command("--port", str(port), "--folder", str(folder))
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment(database_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Demo(process, f"http://127.0.0.1:{port}", folder, _greeting(process))
        finally:
            process.terminate()
            try:
                process.wait(HANG_GUARD)
            except subprocess.TimeoutExpired:
                process.kill()


def _greeting(process: subprocess.Popen[str]) -> str:
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if re.search("Ctrl-C ends", line):
            return said
    raise AssertionError(f"the demo ended instead of starting: {said}")


def gone(pids: list[int]) -> bool:
    """Whether these processes have ended; waits for it."""
    end = time.monotonic() + HANG_GUARD
    while any(map(_lives, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _lives(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")  # a zombie has ended; nobody has asked how yet
