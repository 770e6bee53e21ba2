"""One verb for many operations: each by itself, some at once, and only for as long as a person waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentstop.exceptions import AgentStopError

logger = logging.getLogger(__name__)

R = TypeVar("R")

AT_ONCE = 10  # operations that are under way at the same time: a provider is not to be flooded
PATIENCE = 20.0  # seconds for which somebody waits for all of them


class NotReached(AgentStopError):
    """The time was over before its turn came: nothing was done about this operation."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """What one operation answered: `result`, None while it is under way; or `error`, why nothing happened."""

    operation: int
    result: R | None
    error: Exception | None = None
    under_way: bool = False


def done(result: R) -> Future[R]:
    """The future of what needs no waiting."""
    future: Future[R] = Future()
    future.set_result(result)
    return future


def each(operations: Iterable[int], begin: Callable[[int], Future[R]]) -> tuple[Answer[R], ...]:
    """Begin it for each, at most AT_ONCE at a time, and tell what each answered; an error of one is its answer.

    After PATIENCE seconds nothing more is begun, and what is under way goes on.
    """
    until = time.monotonic() + PATIENCE
    begun: dict[int, Future[R] | Exception] = {}
    open_ones: set[Future[R]] = set()
    for operation in operations:
        begun[operation] = found = _begin(operation, begin, until)
        if isinstance(found, Future):
            open_ones.add(found)
        if len(open_ones) >= AT_ONCE:
            _, open_ones = wait(open_ones, max(0.0, until - time.monotonic()), FIRST_COMPLETED)
    wait(open_ones, max(0.0, until - time.monotonic()))
    return tuple(_answer(operation, found) for operation, found in begun.items())


def _begin(operation: int, begin: Callable[[int], Future[R]], until: float) -> Future[R] | Exception:
    if time.monotonic() >= until:
        return NotReached(f"The time was over before the turn of operation {operation} came. Ask again for it.")
    try:
        return begin(operation)
    except AgentStopError as error:
        return error
    except Exception as error:
        _log(operation)
        return error


def _answer(operation: int, found: Future[R] | Exception) -> Answer[R]:
    if isinstance(found, Exception):
        return Answer(operation, None, found)
    if not found.done():
        return Answer(operation, None, under_way=True)
    try:
        return Answer(operation, found.result())
    except Exception as error:
        _log(operation)
        return Answer(operation, None, error)


def _log(operation: int) -> None:
    extra = {"action": "one_of_many_failed", "operation": operation}
    logger.exception("one of many operations failed", extra=extra)
