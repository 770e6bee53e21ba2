"""The decorator: a function, a coroutine function, a generator or an async one, called as before and gated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from agentstop import calls
from agentstop.carry import OnStop
from agentstop.dispatched import Dispatched
from agentstop.outcomes import Classify, any_value
from agentstop.tools.asked import Key, Wish, names, value_of
from agentstop.tools.handle import current_operation
from agentstop.tools.streams import astream, stream

F = TypeVar("F", bound=Callable[..., Any])


def tool(
    *,
    connector: str,
    key: Key,
    action: str = "",
    identify: Iterable[str] | None = None,
    deadline: float | None = None,
    classify: Classify = any_value,
    on_stop: OnStop = "finish",
    wait: bool = True,
) -> Callable[[F], F]:
    """Each call of the function is one operation of the connector, for the `current_run`; it is called as before.

    `key` names the effect over retries and runs: a template of the arguments, as `"notify:{quarter}"`, or a function of
    them. `action` is its name for people (default: the function's). The others as in `Run.call`. It returns what the
    function returns, or what was kept of that where it was done before. It raises what the function raises; the refusal
    where nothing was sent; Stale where the run has ended meanwhile; NoRun outside of a run.
    """

    def decorate(function: F) -> F:
        wish = Wish(
            function, inspect.signature(function), connector, key, action or function.__name__, names(identify),
            deadline, classify, on_stop, wait,
        )  # fmt: skip
        return cast(F, functools.wraps(function)(_of_its_kind(wish)))

    return decorate


def _of_its_kind(wish: Wish) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(wish.function):
        return lambda *args, **kwargs: astream(wish, wish.request(args, kwargs), args, kwargs)
    if inspect.isgeneratorfunction(wish.function):
        return lambda *args, **kwargs: stream(wish, wish.request(args, kwargs), args, kwargs)
    if inspect.iscoroutinefunction(wish.function):
        return _coroutine(wish)
    return _plain(wish)


def _plain(wish: Wish) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raised: list[BaseException] = []

        def send(op: Dispatched) -> Any:
            current_operation.set(op)
            try:
                return wish.function(*args, **kwargs)
            except BaseException as error:
                raised.append(error)
                raise

        outcome = calls.call(wish.request(args, kwargs), wish.manner(send))
        return value_of(outcome, raised[-1] if raised else None)

    return call


def _coroutine(wish: Wish) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        raised: list[BaseException] = []

        async def send(op: Dispatched) -> Any:
            current_operation.set(op)
            try:
                return await wish.function(*args, **kwargs)
            except BaseException as error:
                raised.append(error)
                raise

        outcome = await calls.acall(wish.request(args, kwargs), wish.manner(send))
        return value_of(outcome, raised[-1] if raised else None)

    return call
