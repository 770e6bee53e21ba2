"""What the facts of the run gate are shown with: a run, both doors, tools of both kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from agentstop.dispatched import Dispatched
from agentstop.outcomes import Outcome
from agentstop.runs import Run, begin
from tests.conftest import HANG_GUARD, InThread

Start = Callable[..., "Future[Outcome]"]
Call = Callable[..., Outcome]
Style = Callable[[Any], Callable[[Dispatched], Any]]


@pytest.fixture(params=["call", "acall"])
def start(request: pytest.FixtureRequest, in_thread: InThread) -> Start:
    """Starts `run.call` or `run.acall` in a thread of the caller's own."""

    def sync(run: Run, tool: Any, key: str = "k", **manner: Any) -> Outcome:
        return run.call("write", {}, connector="tools", key=key, send=tool, **manner)

    def in_a_loop(run: Run, tool: Any, key: str = "k", **manner: Any) -> Outcome:
        return asyncio.run(run.acall("write", {}, connector="tools", key=key, send=tool, **manner))

    door = sync if request.param == "call" else in_a_loop
    return lambda *args, **kwargs: in_thread(door, *args, **kwargs)


@pytest.fixture(params=["def", "async def"])
def style(request: pytest.FixtureRequest) -> Style:
    """The tool as a plain function, or as a coroutine function."""
    return (lambda tool: tool) if request.param == "def" else (lambda tool: tool.asynchronous)


@pytest.fixture
def call(start: Start) -> Call:
    return lambda *args, **kwargs: start(*args, **kwargs).result(HANG_GUARD)


@pytest.fixture
def run() -> Run:
    return begin("write a report")
