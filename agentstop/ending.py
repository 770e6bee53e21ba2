"""A host's own code at the end of a run's block: one function where the run finished, another where it was stopped.

Which one is read from the run's state after its end was committed, whatever the block itself has seen of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from agentstop import database
from agentstop.models import Run as Row
from agentstop.sending import in_domain
from agentstop.states import RunState


class Block(Protocol):
    """A run as a block, sync and async."""

    @property
    def task_id(self) -> int: ...
    @property
    def number(self) -> int: ...
    def __enter__(self) -> Any: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def __aenter__(self) -> Any: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


B = TypeVar("B", bound=Block)


class Ending(Generic[B]):
    """The run's own block, and after its end at most one of the two functions."""

    def __init__(self, run: B, on_finish: Callable[[B], Any] | None, on_stop: Callable[[B], Any] | None) -> None:
        self._run = run
        self._hooks = {RunState.FINISHED: on_finish, RunState.STOPPED: on_stop}

    def __enter__(self) -> B:
        self._run.__enter__()
        return self._run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run.__exit__(kind, error, trace)
        hook = self._hook()
        if hook is not None:
            hook(self._run)

    async def __aenter__(self) -> B:
        await self._run.__aenter__()
        return self._run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run.__aexit__(kind, error, trace)
        hook = await in_domain(self._hook)
        if hook is None:
            return
        told = hook(self._run) if inspect.iscoroutinefunction(hook) else await in_domain(hook, self._run)
        if inspect.isawaitable(told):
            await told

    def _hook(self) -> Callable[[B], Any] | None:
        """None for a run that failed, was superseded or is still live: neither is told of it."""
        return self._hooks.get(state_of(self._run))


def state_of(run: Block) -> RunState:
    """The run's committed state; once it is over it never changes."""
    rows = Row.objects.using(database.alias()).filter(task=run.task_id, number=run.number)
    return RunState(rows.values_list("state", flat=True).get())
