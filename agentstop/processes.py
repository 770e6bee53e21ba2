"""Tools that nobody can interrupt, each in a process of its own: told of the stop, and killed where it does not end."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentstop.dispatched import Dispatched
from agentstop.exceptions import AgentStopError, PassExpired
from agentstop.process.parent import Child, ProcessEnded
from agentstop.sending import sender

__all__ = ["InProcess", "ProcessEnded", "in_process"]


@dataclass(frozen=True, slots=True)
class InProcess:
    """A function that `run.call(send=...)` runs in a process of its own; made by `in_process`."""

    function: Callable[[Dispatched], Any]
    kill_after: float
    checks: bool

    def __call__(self, op: Dispatched) -> Any:
        try:
            sender().at_end(Child, _kill_all)
            child = Child(op, self.function, kill_after=self.kill_after, checks=self.checks)
        except Exception as error:
            why = f"its process could not be started ({type(error).__name__}: {error})"
            raise PassExpired(f"Operation {op.id}: {why}. Not sent.") from error
        try:
            return child.heard_out()
        finally:
            threading.Thread(target=child.bury, name=f"agentstop-end-of-{op.id}", daemon=True).start()

    def require_startable(self) -> None:
        """AgentStopError where this process may start none."""
        if multiprocessing.current_process().daemon:
            raise AgentStopError(
                "in_process() starts a process, which a daemonic one may not, as those of Celery's prefork pool are: "
                "nothing was sent. Run the worker with --pool=threads or --pool=solo."
            )


def in_process(function: Callable[..., Any], *, kill_after: float = 5.0, checks: bool = False) -> InProcess:
    """For `run.call(send=...)`: run `function(op)`, plain or async, in a process of its own, which ends with the call.

    When its run is over it hears the stop signal; `kill_after` seconds later, and at the call's deadline, it is killed,
    with all that it has started. The outcome is unknown then, unless a receipt says more. `checks`: the function calls
    `op.check()` before its first byte, so that one that was killed before that has sent nothing, proven.

    ValueError where another process could not import the function.
    """
    if not (isinstance(kill_after, int | float) and 0 <= kill_after < math.inf):
        raise ValueError(f"kill_after must be a number of seconds, 0 or more, not {kill_after!r}.")
    try:
        pickle.dumps(function)
    except Exception as error:
        raise ValueError(
            f"in_process() needs a function that another process can import, not {function!r} ({error}). Define it at "
            "the top of a module, and bind its arguments with functools.partial."
        ) from error
    return InProcess(function, float(kill_after), checks)


async def _kill_all() -> None:
    """At the end of this process: nothing goes on behind it."""
    for child in Child.all():
        child.kill()
