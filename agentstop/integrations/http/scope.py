"""For whom a client that many tasks share is writing at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from agentstop.dispatched import Dispatched
from agentstop.exceptions import AgentStopError
from agentstop.runs import Run


class Ungated(AgentStopError):
    """A write outside of `through()`, or one that has no name: nothing was sent."""


@dataclass(slots=True)
class Scope:
    """What a block of `through` says of the writes inside it."""

    run: Run | None = None
    op: Dispatched | None = None
    key: str = ""
    action: str = ""
    identify: tuple[str, ...] | None = None
    deadline: float | None = None
    lost: tuple[str, str] | None = None  # method and address of a write within `op` whose answer was lost


_current: ContextVar[Scope | None] = ContextVar("agentstop_http_scope", default=None)


@contextmanager
def through(
    by: Run | Dispatched,
    *,
    key: str = "",
    action: str = "",
    identify: Iterable[str] | None = None,
    deadline: float | None = None,
) -> Iterator[None]:
    """Let the writes of gated clients in this block go out for a run, or within an operation that has passed already.

    For a run, each write is an operation: `key` names it over retries and runs (else its Idempotency-Key header does),
    `action` says what it is, `identify` which of `method`, `url`, `query` and `body` must be equal when the key is used
    again, `deadline` how many seconds it may take. Within an operation each send asks its pass again.
    """
    if isinstance(by, Run):
        scope = Scope(run=by, key=key, action=action, deadline=deadline)
        scope.identify = tuple(identify) if identify is not None else None
    elif isinstance(by, Dispatched):
        scope = Scope(op=by)
    else:
        raise TypeError(f"through() takes a Run or the handle of an operation, not {by!r:.100}.")
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def current(method: str, where: str) -> Scope:
    """The block that this write stands in."""
    scope = _current.get()
    if scope is None:
        raise Ungated(f"{method} {where} stands in no block of through(run) or through(op). Nothing was sent.")
    return scope
