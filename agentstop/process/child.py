"""The entry of a tool's own process. Imports nothing of Django's before it is set up, and nothing of the host's."""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import signal
from multiprocessing.connection import Connection
from typing import Any


def main(pipe: Connection, life: Connection, settings_module: str, job: bytes) -> None:
    """Set up, wait for leave to begin, call the function, say what became of it."""
    _lead_a_group()
    _die_with_the_parent(life)
    try:
        line, handle, function = _set_up(pipe, settings_module, job)
    except BaseException as error:
        pipe.send(("not begun", _describe(error)))
        return
    line.wait_for_leave()
    line.say(*_outcome(handle, function))


def _set_up(pipe: Connection, settings_module: str, job: bytes) -> tuple[Any, Any, Any]:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module)
    django.setup()
    from agentstop.process.line import Handle, Line

    function, passed = pickle.loads(job)  # noqa: S301  of our own parent
    line = Line(pipe, passed)
    return line, Handle(passed, line), function


def _outcome(handle: Any, function: Any) -> tuple[str, Any]:
    from agentstop.exceptions import AgentStopError
    from agentstop.process.line import portable

    try:
        value = function(handle)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except AgentStopError as error:
        return "refused", portable(error)
    except BaseException as error:
        return "raised", _describe(error)
    try:
        told = pickle.dumps(value)
        pickle.loads(told)  # noqa: S301  our own: what cannot be read here cannot be read there
    except Exception as error:
        return "unusable", _describe(error)
    return "returned", told


def _lead_a_group() -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # what the function starts is killed with it; Ctrl-C in a terminal is for the parent


def _die_with_the_parent(life: Connection) -> None:
    """Linux kills the whole group when the parent is gone, whatever it does; elsewhere the line notices that."""
    try:
        import fcntl

        fcntl.fcntl(life.fileno(), fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(life.fileno(), fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life.fileno(), fcntl.F_SETFL, fcntl.fcntl(life.fileno(), fcntl.F_GETFL) | os.O_ASYNC)
    except (ImportError, AttributeError, OSError):
        return


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
