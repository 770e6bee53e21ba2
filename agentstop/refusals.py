"""Why the gate let nothing pass: found under the locks, recorded on the operation, and raised in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from agentstop import bodies, database, frozen, wake
from agentstop.exceptions import (
    Declined,
    Frozen,
    InFlight,
    KeyReused,
    OutcomeUnknown,
    Paused,
    Refused,
    TaskNotFound,
)
from agentstop.models import Decision, Operation, Run, Task
from agentstop.models.facts import Decided
from agentstop.request import Request, listing
from agentstop.settle import refold
from agentstop.states import OPEN_CANCELLATIONS, OperationState, TaskState
from agentstop.stop_signal import reason_over


@dataclass(frozen=True, slots=True)
class Replay:
    """The operation has succeeded before: its stored answer serves, and nothing is sent."""

    operation: int


UNDER_WAY = {OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN}

WORDS = {
    "stopped": "Task {task} was stopped. Nothing more is sent for it; a person may begin a new run.",
    "superseded": "Run {run} of task {task} was superseded by run {last}. End here; the newer run goes on.",
    "finished": "Run {run} of task {task} has ended. Begin a new run to send more.",
    "paused": "Task {task} is paused. Ask again after it was resumed.",
    "declined": "A person has declined operation {key!r} of task {task}. Nothing was sent for it.",
    "key_reused": "Key {key!r} of task {task} names an operation with other identifying arguments. Use another key for "
    "another effect, or identify= to say which arguments identify it.",
    "in_flight": "Operation {key!r} of task {task}, or a request to cancel it, is under way already ({state}, "
    "cancellation: {cancellation}). Wait for what becomes of it instead of sending again.",
    "outcome_unknown": "Operation {key!r} of task {task} may have had its effect, and sending again is not known to be "
    "harmless. Look it up, or ask a person to settle it.",
}


@database.retried
def prepare(request: Request) -> int:
    """List an operation before its turn, without letting it leave; answers its id. What is listed already stays.

    Raises the refusal, which is recorded, where the run is over or the key names something else.
    """
    with database.durable():
        found = _prepare(request)
    wake.announce(request.task)
    if isinstance(found, Refused):
        raise found
    return found


def _prepare(request: Request) -> int | Refused:
    task, operation, now = _locked(request)
    reason = reason_over(task.state, task.live_run, task.last_run, request.run)
    if reason is None and operation is not None and operation.digest != request.digest:
        reason = KeyReused
    if reason is not None:
        return _refuse(reason, task, operation, request, now)
    return _listed(task, operation, request, now).pk


def _listed(task: Task, operation: Operation | None, request: Request, now: datetime) -> Operation:
    """The operation, or the row that lists it from now on."""
    if operation is not None:
        return operation
    return Operation.objects.using(database.alias()).create(
        task=task, key=request.key, incarnation=request.incarnation, **listing(request, now)
    )


@database.retried
def declined(request: Request) -> int:
    """Write down that a person has declined it, as a refusal of the operation; answers its id."""
    with database.durable():
        task, operation, now = _locked(request)
        refusal = _refuse(Declined, task, operation, request, now)
    wake.announce(request.task)
    return refusal.operation or 0


@database.retried
def explain(request: Request) -> Replay | int:
    """A second look, with locks: the incarnation to try, the Replay of an answer, or the recorded Refused is raised."""
    with database.durable():
        found = _examine(request)
    if isinstance(found, Refused):
        wake.announce(request.task)
        raise found
    return found


def _examine(request: Request) -> Replay | int | Refused:
    task, operation, now = _locked(request)
    reason = _reason_of_the_task(task, request)
    if reason is None:
        found = _by_the_operation(operation, request)
        if isinstance(found, int):
            return _unless_frozen(found, task, operation, request, now)
        if isinstance(found, Replay):
            return found
        reason = found
    return _refuse(reason, task, operation, request, now)


def _unless_frozen(
    incarnation: int, task: Task, operation: Operation | None, request: Request, now: datetime
) -> int | Frozen:
    """What would leave does not while it is frozen. Read anew: what this process knew was too old, or said so."""
    held = frozen.read(now).holding(request.connector, request.action, lambda: task.owner_id)
    if held is None:
        return incarnation
    operation = _listed(task, operation, request, now)
    _count(Frozen, task, operation, request, now, {"freeze": held.pk})
    return frozen.refusal(held, request.connector, request.action, operation.pk)


def _locked(request: Request) -> tuple[Task, Operation | None, datetime]:
    """The task, and its operation of that key as it is now, under their locks."""
    task = database.locked(Task.objects.filter(pk=request.task)).first()
    if task is None:
        raise TaskNotFound(f"There is no task {request.task}.")
    operation = database.locked(Operation.objects.filter(task=task, key=request.key)).order_by("-incarnation").first()
    now = database.now()
    if operation is not None and operation.due_at is not None and operation.due_at <= now:
        refold([operation], now)
    return task, operation, now


def _reason_of_the_task(task: Task, request: Request) -> type[Refused] | None:
    over = reason_over(task.state, task.live_run, task.last_run, request.run)
    return over or (Paused if task.state == TaskState.PAUSED else None)


def _by_the_operation(operation: Operation | None, request: Request) -> Replay | int | type[Refused]:
    """What the operation's own state allows a live run: a Replay, an incarnation to send, or a reason against it."""
    if operation is None:
        return 1
    if operation.digest != request.digest:
        return KeyReused
    if operation.state == OperationState.SUCCEEDED:
        return _by_what_was_undone(operation)
    if operation.state == OperationState.CANCELLED:
        return operation.incarnation + 1
    if operation.state in {OperationState.SENDING, OperationState.ACCEPTED}:
        return InFlight
    if _may_still_be_cancelled(operation):
        return InFlight
    if operation.state == OperationState.UNKNOWN:
        return _by_an_unknown_outcome(operation, request)
    return operation.incarnation


def _may_still_be_cancelled(operation: Operation) -> bool:
    """Whether a request to cancel it may still arrive: it would give up what is sent now with the same key."""
    return operation.cancel_lease_until is not None and operation.cancel_lease_until >= database.now()


def _by_what_was_undone(operation: Operation) -> Replay | int | type[Refused]:
    """A success is replayed, unless it was undone: then asking again means a new effect."""
    undoings = Operation.objects.using(database.alias()).filter(compensates=operation)
    states = set(undoings.values_list("state", flat=True))
    if OperationState.SUCCEEDED in states:
        return operation.incarnation + 1
    return InFlight if states & UNDER_WAY else Replay(operation.pk)


def _by_an_unknown_outcome(operation: Operation, request: Request) -> int | type[Refused]:
    now = database.now()
    if operation.cancellation in OPEN_CANCELLATIONS:
        return InFlight
    if operation.lease_until is not None and operation.lease_until >= now:
        return InFlight
    return operation.incarnation if request.arrives_while_honoured(operation.resend_until, now) else OutcomeUnknown


def _refuse(reason: type[Refused], task: Task, operation: Operation | None, request: Request, now: datetime) -> Refused:
    """Write the refusal down, on an operation that is listed for it if need be; repeated ones are counted."""
    operation = _listed(task, operation, request, now)
    if reason is not Paused:  # a pause holds it: it stays listed, and its turn comes
        _count(reason, task, operation, request, now)
    words = WORDS[reason.reason].format(
        task=task.pk,
        run=request.run,
        last=task.last_run,
        key=bodies.safe(request.key),
        state=operation.state,
        cancellation=operation.cancellation,
    )
    refusal = reason(words)
    refusal.operation = operation.pk
    return refusal


def _count(
    reason: type[Refused],
    task: Task,
    operation: Operation,
    request: Request,
    now: datetime,
    detail: dict[str, Any] | None = None,
) -> None:
    """Write a refusal down, or count it again: each run and reason has one row."""
    refusals = Decision.objects.using(database.alias())
    same = refusals.filter(operation=operation, run=request.run, verb=Decided.REFUSE, reason=reason.reason)
    Run.objects.using(database.alias()).filter(task=task, number=request.run).update(seen_at=now)  # it still asks
    if same.update(count=F("count") + 1):
        return
    refusals.create(
        task=task,
        operation=operation,
        run=request.run,
        verb=Decided.REFUSE,
        policy="gate",
        reason=reason.reason,
        detail=detail or {},
        at=now,
    )
    refold([operation], now)
