"""The demo as a whole: the sandbox provider, an MCP server, the worker and the web server on one folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from website.demo import broker
from website.demo.children import Child, Problem
from website.demo.notes_log import READY
from website.environment import ROOT

HOST = "127.0.0.1"
PEOPLE = "people.json"  # names and passwords
PORT, NOTES_PORT = "sandbox.port", "notes.port"
ORDINARY = ("ann", "ben")
OPERATOR = "olga"


class System:
    """A context manager: inside it everything has answered, and after it no process is left."""

    def __init__(
        self, folder: Path, port: int, environment: dict[str, str] | None = None, *, celery: bool = True
    ) -> None:
        self.folder, self.port = folder.absolute(), port
        self._celery = celery and broker.program() is not None
        self.changed = threading.Event()  # a process has ended
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "website.settings",
            "WEBSITE_FOLDER": str(self.folder),
            "SITE_ADDRESS": f"http://{HOST}:{port}",
            **(environment or {}),
        }
        self.children: dict[str, Child] = {}
        self._lock: IO[str] | None = None

    def __enter__(self) -> System:
        try:
            self._take_folder()
            check_port(self.port)
            self._prepare()
            self._start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def sandbox(self) -> str:
        """The address of the provider."""
        return self.environment["SANDBOX_ADDRESS"]

    @property
    def notes(self) -> str:
        """The address of the MCP server."""
        return self.environment["NOTES_ADDRESS"]

    @property
    def broker(self) -> str:
        """The address of Celery's broker; empty where there is none."""
        return self.environment.get("DEMO_BROKER", "")

    @property
    def people(self) -> dict[str, str]:
        """Names and passwords."""
        found: dict[str, str] = json.loads((self.folder / PEOPLE).read_text())
        return found

    def start_sandbox(self, port: int = 0) -> None:
        """The provider, on this port or any that is free; also a second time, after it was ended."""
        words = ["agentstop.testing.sandbox", "--ledger", str(self.folder / "sandbox.sqlite3"), "--port", str(port)]
        sandbox = self._child("sandbox", words, "sandbox ready ")
        sandbox.wait_ready()
        self.environment["SANDBOX_ADDRESS"] = sandbox.told
        (self.folder / PORT).write_text(sandbox.told.rpartition(":")[2])

    def _start_notes(self) -> Child:
        """The MCP server; what it has written down is in the folder."""
        words = ["website.demo.notes", str(self.folder), str(self._usual_port(NOTES_PORT))]
        return self._child("MCP server", words, READY)

    def _is_ready(self, notes: Child) -> None:
        notes.wait_ready()
        self.environment["NOTES_ADDRESS"] = notes.told
        (self.folder / NOTES_PORT).write_text(notes.told.rpartition(":")[2])

    def _usual_port(self, file: str) -> int:
        """The port that a provider had in this folder before, if it is free: addresses of what it made stay good."""
        try:
            port = int((self.folder / file).read_text())
            check_port(port)
        except (OSError, ValueError, Problem):
            return 0
        return port

    def start_worker(self) -> Child:
        """The worker; also a second one, after the first was killed."""
        return self._child("worker", ["django", "demo_worker"], "agentstop worker: ready")

    def _start_broker(self) -> None:
        """Where there is no Redis the demo does without."""
        queue = self._child("broker", ["website.demo.broker"], broker.READY)
        try:
            queue.wait_ready()
            self.environment["DEMO_BROKER"] = queue.told
        except Problem:
            self.children.pop(queue.name).end()

    def _start_celery(self) -> None:
        """A worker for Celery jobs, last and waited for by nobody."""
        words = ["celery", "-A", "website.demo.celery_jobs", "worker", "--pool", "threads", "-c", "4", "-l", "WARNING"]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._child("Celery worker", words, "celery worker: ready")

    def dead(self) -> Child | None:
        """A process that has ended by itself."""
        return next((child for child in self.children.values() if child.ended()), None)

    def end(self) -> None:
        """The web server first, so that nobody presses any more; the provider last, since the others speak to it."""
        for name in ("web server", "worker", "Celery worker", "broker", "MCP server", "sandbox"):
            if name in self.children:
                self.children.pop(name).end()
        if self._lock is not None:
            self._lock.close()

    def _take_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds sessions and passwords
            self._lock = (self.folder / "demo.lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(
                f"Another demo is running on {self.folder}: end it, or name another folder, as in "
                "make demo ARGS='--folder FOLDER'."
            ) from None
        except OSError as problem:
            raise Problem(
                f"The folder {self.folder} cannot be written ({problem.strerror}): name another one, as in "
                "make demo ARGS='--folder FOLDER'."
            ) from None

    def _prepare(self) -> None:
        """Tables and people, in a process of its own, since the settings are read once in a process."""
        done = subprocess.run(
            [sys.executable, "-m", "django", "demo_prepare"],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Problem((done.stderr or done.stdout).strip().splitlines()[-1].removeprefix("CommandError: "))

    def _start(self) -> None:
        notes = self._start_notes()  # it takes longest
        if self._celery:
            self._start_broker()
        self.start_sandbox(self._usual_port(PORT))
        self._is_ready(notes)
        worker = self.start_worker()
        server = ["daphne", "-b", HOST, "-p", str(self.port), "--no-server-name"]
        # Without pings a frozen browser would keep its socket, and the server its frames.
        server += ["--ping-interval", "10", "--ping-timeout", "15", "website.asgi:application"]
        web = self._child("web server", server, "Listening on TCP address")
        worker.wait_ready()
        web.wait_ready()
        if self.broker:
            self._start_celery()

    def _child(self, name: str, words: list[str], ready: str) -> Child:
        log = self.folder / f"{name.replace(' ', '-')}.log"
        child = self.children[name] = Child(name, words, log, self.environment, ready, self.changed.set)
        return child


def check_port(port: int) -> None:
    """A Problem where nobody could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "no such port"
            other = port + 1 if 1024 <= port < 65535 else 8001
            raise Problem(
                f"Port {port} cannot be used ({why}): name another one, as in make demo ARGS='--port {other}'."
            ) from None


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        number: int = probe.getsockname()[1]
        return number
