"""`manage.py demo`: everything on this machine, to play with; `--check`: the same, driven and judged by a program."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from website import environment
from website.demo.children import Problem
from website.demo.people import OPERATOR
from website.demo.system import System, free_port

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

WELCOME = """
The demo is ready:  {address}

{people}

Log in as ann and start a task: an agent creates a report, uploads it and notifies a channel,
at a provider that runs beside it. Press Stop at any moment and read what became of each step.
olga sees the tasks of all, and {address}/admin/

What really happened, told by the provider itself:  {sandbox}
Files are in {folder}. Ctrl-C ends everything; the next start goes on with the same data.
"""


class Ended(BaseException):
    """Somebody asked for the end: Ctrl-C, SIGTERM, or a terminal that was closed."""


class Command(BaseCommand):
    help = "Starts the web application, its worker and a provider to play with, on this machine alone."
    requires_system_checks: list[str] = []  # the processes that it starts make them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="where the pages answer (default: 8000)")
        parser.add_argument("--folder", type=Path, help="where everything is kept (default: data in the checkout)")
        parser.add_argument("--check", action="store_true", help="show each promise in a temporary folder, and end")

    def handle(self, *, port: int, folder: Path | None, check: bool, **options: Any) -> None:
        for number in ENDS:
            signal.signal(number, _end)
        try:
            code = self._check(folder) if check else self._serve(folder or environment.folder(), port)
        except Problem as problem:
            self.stderr.write(str(problem))
            code = 1
        except Ended:
            code = 0
        sys.exit(code)

    def _serve(self, folder: Path, port: int) -> int:
        self.stdout.write("Starting …")
        self.stdout.flush()
        with System(folder, port) as system:
            self.stdout.write(_welcome(system))
            self.stdout.flush()
            try:
                while (dead := system.dead()) is None:
                    system.changed.wait()
                    system.changed.clear()
            except Ended:
                self.stdout.write("\nEnding …")
                return 0
            raise Problem(f"{dead.obituary()}\nEverything else is ended too.")

    def _check(self, folder: Path | None) -> int:
        from website.demo.promises import run  # needs packages that only the check does

        if folder is not None:
            return run(folder, free_port(), self.stdout.write)
        with tempfile.TemporaryDirectory(prefix="agentstop-check-") as temporary:
            return run(Path(temporary), free_port(), self.stdout.write)


def _end(number: int, frame: FrameType | None) -> None:
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)  # ending takes a moment; asked twice is asked once
    raise Ended


def _welcome(system: System) -> str:
    roles = {name: "operator" if name == OPERATOR else "ordinary user" for name in system.people}
    people = "\n".join(f"  {name:6} password {word:14} {roles[name]}" for name, word in system.people.items())
    return WELCOME.format(address=system.address, people=people, sandbox=system.sandbox, folder=system.folder)
