"""How an agent is called in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from django.db import connections

from agentstop.runs import Run


def called(agent: Callable[[Run], Any], run: Run) -> Any:
    """What the agent does, be it a function or a coroutine function."""
    if inspect.iscoroutinefunction(agent):
        return asyncio.run(agent(run))
    return agent(run)


def own(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """With database connections of its own, which are closed at its end."""
    try:
        return function(*args, **kwargs)
    finally:
        connections.close_all()
