"""The processes that the demo is made of: started, waited for, watched, ended in order."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from website.environment import ROOT

PATIENCE = 60.0  # seconds for a process to say that it is ready
FAREWELL = 15.0  # seconds to end in order


class Problem(Exception):
    """What is wrong and what to do, in one sentence for a person at a terminal."""


class Child:
    """One process. It ends with this one; what it says goes to a file, and its last lines are kept."""

    def __init__(
        self,
        name: str,
        words: list[str],
        log: Path,
        environment: Mapping[str, str],
        ready: str,
        changed: Callable[[], None],
    ) -> None:
        self.name, self.log = name, log
        self.told = ""  # the rest of the line that says ready
        self.tail: deque[str] = deque(maxlen=15)
        self._ready, self._changed = ready, changed
        self._is_ready = threading.Event()
        self.process = subprocess.Popen(  # noqa: S603  our own modules
            [sys.executable, "-u", "-m", "website.demo.lifeline", *words],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the parent, which ends the others in order
        )
        self._reader = threading.Thread(target=self._read, name=f"log-{name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> None:
        """Until it has said so; a Problem where it ended instead, or stayed silent."""
        self._is_ready.wait(PATIENCE)
        if self.process.poll() is not None or not self._is_ready.is_set():
            raise Problem(self.obituary())

    def obituary(self) -> str:
        """How it ended, and what it said last."""
        code = self.process.poll()
        how = "did not get ready in time" if code is None else f"ended with status {code}"
        last = "".join(f"\n    {line}" for line in self.tail)
        return f"The {self.name} {how}. All it said is in {self.log}; the end of it:{last or ' nothing'}"

    def ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> None:
        """SIGTERM, and SIGKILL where that is not obeyed."""
        self.process.terminate()
        try:
            self.process.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(FAREWELL)
        if self.process.stdin:
            self.process.stdin.close()

    def kill(self) -> None:
        """SIGKILL: it notices nothing."""
        self.process.kill()
        self.process.wait(FAREWELL)

    def _read(self) -> None:
        with self.log.open("a") as log:
            for line in self.process.stdout or ():
                log.write(line)
                log.flush()
                self.tail.append(line.rstrip())
                if self._ready in line and not self._is_ready.is_set():
                    self.told = line.partition(self._ready)[2].strip()
                    self._is_ready.set()
        self.process.wait()
        self._is_ready.set()
        self._changed()
