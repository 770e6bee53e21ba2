"""What waits for an operator: each board is a query, a count, and since when the oldest row of it waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from agentstop import database, frozen, permissions, reconcile, silence
from agentstop.closing import MAY_GO_ON
from agentstop.models import Operation, Task
from agentstop.states import Cancellation, OperationState, RunState, TaskState


class Board(StrEnum):
    """What an operator may have to look at. In the order in which it presses."""

    LOOK_UPS_NOT_RUNNING = "look_ups_not_running"
    CONTRADICTORY = "contradictory"
    UNDELIVERABLE_CANCELS = "undeliverable_cancels"
    UNKNOWN = "unknown"
    OPEN_AFTER_STOP = "open_after_stop"
    NO_SIGN_OF_LIFE = "no_sign_of_life"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class Standing:
    """How many rows a board has, and since when the oldest of them waits; None where it has none."""

    board: Board
    count: int
    oldest: datetime | None


def rows(board: Board, user: Any = None) -> QuerySet[Any]:
    """The rows of a board: operations, of NO_SIGN_OF_LIFE tasks, of FROZEN freezes. For a user: those of `visible`."""
    found = _QUERIES[board]()
    if user is None or board is Board.FROZEN:
        return found
    return permissions.narrowed(user, found, "" if board is Board.NO_SIGN_OF_LIFE else "task")


def standing(board: Board, user: Any = None) -> Standing:
    """One board, in one query."""
    found = rows(board, user).aggregate(oldest=_SINCE.get(board, Min("state_since")), count=Count("pk", distinct=True))
    return Standing(board, found["count"], found["oldest"])


def standings(user: Any = None) -> list[Standing]:
    """All boards, one query each; for a user, by what their lists show."""
    return [standing(board, user) for board in Board]


def _operations() -> QuerySet[Operation]:
    return Operation.objects.using(database.alias())


def _unknown() -> QuerySet[Operation]:
    """Those that are stored as unknown, and those that time alone has made unknown since they were stored."""
    overdue = Q(state__in=[OperationState.SENDING, OperationState.ACCEPTED], due_at__lte=database.now())
    return _operations().filter(Q(state=OperationState.UNKNOWN) | overdue)


_QUERIES: dict[Board, Callable[[], QuerySet[Any]]] = {
    Board.LOOK_UPS_NOT_RUNNING: reconcile.waiting_too_long,
    Board.CONTRADICTORY: lambda: _operations().filter(contradictory=True, state=OperationState.UNKNOWN),
    Board.UNDELIVERABLE_CANCELS: lambda: _operations().filter(MAY_GO_ON, cancellation=Cancellation.UNDELIVERABLE),
    Board.UNKNOWN: _unknown,
    Board.OPEN_AFTER_STOP: lambda: _operations().filter(MAY_GO_ON, task__state=TaskState.STOPPED),
    Board.NO_SIGN_OF_LIFE: lambda: silence.silent(Task.objects.using(database.alias())),
    Board.FROZEN: lambda: frozen.in_force(database.now()),
}
_SINCE = {
    Board.LOOK_UPS_NOT_RUNNING: Min("follow_up_at"),
    Board.FROZEN: Min("at"),
    Board.NO_SIGN_OF_LIFE: Min("runs__seen_at", filter=Q(runs__state=RunState.LIVE)),
}
