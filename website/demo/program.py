"""`manage.py demo`: everything on this machine, to play with; `--check`: the same, driven and judged by a program.

Reads no settings: they depend on the folder, which is named here.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from agentstop.testing.sandbox import holds
from website.demo.children import Problem
from website.demo.system import OPERATOR, System, free_port
from website.environment import folder as usual_folder

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WELCOME = """
The demo is ready:  {address}

{people}

Log in as ann and start a task: an agent creates a report, uploads it and notifies a channel, at a
provider that runs beside it; or it writes a note with the tools of an MCP server. Press Stop at any
moment and read what became of each step. {queues}
olga sees the tasks of all, and {address}/admin/

What really happened, told by the provider itself:  {sandbox}
and by the MCP server:                              {notes}
Files are in {folder}. Ctrl-C ends everything; the next start goes on with the same data.
"""
WITH_CELERY = "Its steps can be a chain of Celery jobs, too."
WITHOUT_CELERY = "No redis-server was found, or no Celery: so\nno chain of Celery jobs is offered."


class Ended(BaseException):
    """Somebody asked for the end: Ctrl-C, SIGTERM, or a terminal that was closed."""


def main(words: Sequence[str]) -> int:
    """The exit code."""
    options = _options(words)
    for number in ENDS:
        signal.signal(number, _end)
    try:
        if options.check:
            return _check(options.folder)
        return _serve(options.folder or usual_folder(), options.port)
    except Problem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except Ended:
        _say("\nEnded.")
        return 130 if options.check else 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="manage.py demo",
        description="Starts the web application, its worker and a provider to play with, on this machine alone.",
    )
    parser.add_argument("--port", type=int, default=8000, help="where the pages answer (default: 8000)")
    parser.add_argument("--folder", type=Path, help="where everything is kept (default: data in the checkout)")
    parser.add_argument("--check", action="store_true", help="show each promise in a temporary folder, and end")
    return parser.parse_args(words)


def _serve(folder: Path, port: int) -> int:
    _say("Starting …")
    with System(folder, port) as system:
        _say(_welcome(system))
        while (dead := system.dead()) is None:
            system.changed.wait()
            system.changed.clear()
        obituary = dead.obituary()
    raise Problem(f"{obituary}\nEverything else was ended too.")


def _check(folder: Path | None) -> int:
    try:
        from website.demo.promises import keeps  # here, since only the check needs their packages
    except ImportError as problem:
        raise Problem(f"The check needs a package that is not installed ({problem.name}): type make demo.") from None
    if folder is not None:
        return keeps(_checked(folder), _say)
    with tempfile.TemporaryDirectory(prefix="agentstop-check-") as temporary:
        return keeps(_checked(Path(temporary)), _say)


def _checked(folder: Path) -> System:
    """What the check holds at the provider is not given up meanwhile, however slow this machine is."""
    return System(folder, free_port(), {"SEND_DEADLINE": str(holds.LIMIT)}, celery=False)


def _end(number: int, frame: FrameType | None) -> None:
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)  # ending takes a moment; asked twice is asked once
    raise Ended


def _welcome(system: System) -> str:
    roles = {name: "operator" if name == OPERATOR else "ordinary user" for name in system.people}
    people = "\n".join(f"  {name:6} password {word:14} {roles[name]}" for name, word in system.people.items())
    return WELCOME.format(
        address=system.address,
        people=people,
        queues=WITH_CELERY if system.broker else WITHOUT_CELERY,
        sandbox=system.sandbox,
        notes=system.notes,
        folder=system.folder,
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
