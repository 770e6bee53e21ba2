"""Who sends: this process or another one, told in the same words."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentstop import sending, wake
from agentstop.outcomes import Outcome
from agentstop.runs import Run
from agentstop.stop_signal import watch
from agentstop.testing.barriers import Barrier, held_at, shared_client
from tests.conftest import HANG_GUARD, InThread

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Got:
    """What a caller got."""

    outcome: str
    refusal: str = ""


class Sender(ABC):
    """Starts calls by name, holds the main one at a point of our own side, and comes to rest."""

    @abstractmethod
    def hold(self, point: str) -> None:
        """Hold the operation with the key `main` there from now on."""

    @abstractmethod
    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        """Begin a call, with its name as key."""

    @abstractmethod
    def wait_at(self, point: str) -> None:
        """Until the held one is there."""

    @abstractmethod
    def hear(self, run: Run) -> None:
        """Until the process that sends has heard that the run is over."""

    @abstractmethod
    def go(self) -> None:
        """Let it go on."""

    @abstractmethod
    def got(self, name: str) -> Got:
        """What that call has got, as soon as it has."""

    @abstractmethod
    def client(self) -> int:
        """Which HTTP client the connector shares among all tasks of the process that sends."""

    @abstractmethod
    def rest(self) -> None:
        """Returns when nothing is under way any more, and every receipt is stored."""


class ThisProcess(Sender):
    """Calls in threads of the test's own process."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread
        self._held = ExitStack()
        self._barriers: dict[str, Barrier] = {}
        self._arrived: dict[str, threading.Event] = defaultdict(threading.Event)
        self._calls: dict[str, Future[Outcome]] = {}

    def hold(self, point: str) -> None:
        self._barriers[point] = Barrier("main", self._arrived[point].set)
        self._held.enter_context(held_at(point, self._barriers[point]))

    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        self._calls[name] = self._in_thread(run.call, action, args, connector="sandbox", key=name)

    def wait_at(self, point: str) -> None:
        assert self._arrived[point].wait(HANG_GUARD), f"nobody came to {point}"

    def hear(self, run: Run) -> None:
        assert watch().signal(run.task_id, run.number).wait(HANG_GUARD)

    def go(self) -> None:
        for barrier in self._barriers.values():
            barrier.open()

    def got(self, name: str) -> Got:
        outcome = self._calls[name].result(HANG_GUARD)
        return Got(outcome.outcome, outcome.refusal.reason if outcome.refusal is not None else "")

    def client(self) -> int:
        return shared_client()

    def rest(self) -> None:
        sending.close()
        wake.close()
        self._held.close()


class OtherProcess(Sender):
    """`sender` in a process of its own, on the same database."""

    MODULE = "tests.races"

    def __init__(self, database_url: str) -> None:
        environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self._told: dict[str, queue.Queue[dict[str, Any]]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def configure(self, sandbox: str, *, settling: float = 2.0, **settings: float) -> None:
        self._do("set", sandbox=sandbox, settling=settling, settings=settings)
        self._next("ready")
        self._told.clear()  # of what a test before has not asked for

    def hold(self, point: str) -> None:
        self._do("hold", point=point, key="main")

    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        self._do("call", name=name, token=run.token, action=action, args=args, key=name)

    def wait_at(self, point: str) -> None:
        self._next(point)

    def hear(self, run: Run) -> None:
        self._do("hear", token=run.token)
        self._next("heard")

    def go(self) -> None:
        self._do("go")

    def got(self, name: str) -> Got:
        told = self._next(name)
        return Got(told["outcome"], told["refusal"])

    def client(self) -> int:
        self._do("client")
        number: int = self._next("client")["client"]
        return number

    def rest(self) -> None:
        self._do("rest")
        self._next("rested")

    def work(self, *, once: bool) -> None:
        """From now on it is a worker; with `once` it does what is due and rests."""
        self._do("work", once=once)

    def worked(self) -> None:
        """Until it has done what was due."""
        self._next("worked")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(HANG_GUARD)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Close its input, at which it ends by itself; by its pid where it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(HANG_GUARD)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._reader.join(HANG_GUARD)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _do(self, verb: str, **words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            about = told.get("at") or told.get("ended") or next(iter(told))
            self._about(about).put(told)

    def _about(self, about: str) -> queue.Queue[dict[str, Any]]:
        return self._told.setdefault(about, queue.Queue())  # at once: who reads and who asks are two threads

    def _next(self, about: str) -> dict[str, Any]:
        try:
            return self._about(about).get(timeout=HANG_GUARD)
        except queue.Empty:
            raise AssertionError(f"the other process never told of {about!r}") from None
