"""Compensating: undoing an effect is another operation, asked for by a person with a right of its own.

It is allowed after a stop, never automatic, at most one at a time, and only of what is known to exist. The first
operation keeps its own truth: undone is not "never done".
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentstop import asking, bodies, conf, connectors, database, frozen, permissions, settle, telemetry, wake
from agentstop.exceptions import Frozen, InFlight, Refused, TaskNotFound
from agentstop.gate import sender_name
from agentstop.models import Attempt, Decision, Operation, Task
from agentstop.models.facts import Decided, Effect
from agentstop.passes import Lease, Pass
from agentstop.providers.base import Compensation
from agentstop.request import Request, listing
from agentstop.sending import sender
from agentstop.settle import Settled
from agentstop.states import OperationState, Verb

logger = logging.getLogger(__name__)

UNDER_WAY = (OperationState.PREPARED, OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN)


class CannotCompensate(Refused):
    """There is nothing known to undo, or this provider cannot undo it."""

    reason = "cannot_compensate"


@dataclass(frozen=True, slots=True)
class Undoing:
    """A compensation that has passed the gate: its operation, and a future of what it became."""

    operation: int
    future: Future[Settled]


def compensate(operation_id: int, *, by: Any, reason: str = "") -> Undoing:
    """Undo what the operation has done, by the action that its provider names for it.

    Raises Denied or TaskNotFound, CannotCompensate where it is not known to exist or cannot be undone, InFlight where
    it is being undone, or was, Frozen where an operator holds that action. Nothing was sent then.
    """
    operation = Operation.objects.using(database.alias()).select_related("task").filter(pk=operation_id).first()
    if operation is None:
        raise TaskNotFound(f"There is no operation {operation_id} for you.")
    reason = bodies.reason(reason)
    permissions.require(by, "compensate_operation", operation.task, Decided.COMPENSATE, reason=reason)
    record = _how(operation)
    passed = _pass(operation_id, by, reason, record)
    if isinstance(passed, Frozen):
        telemetry.refused(operation.connector, record.action, passed.reason)
        raise passed
    telemetry.passed(operation.connector, record.action)
    wake.announce(operation.task_id)
    return Undoing(passed.operation, sender().start(lambda: asking.submit(passed)))


def _how(operation: Operation) -> Compensation:
    record = connectors.capability(operation.connector, operation.action).compensation
    if record is None:
        raise CannotCompensate(
            f"{operation.connector!r} names no way to undo {operation.action!r}. Undo it at the provider by hand."
        )
    return record


@database.retried
def _pass(operation_id: int, by: Any, reason: str, record: Compensation) -> Pass | Frozen:
    """The gate for a person's action: no run is needed, only that the effect exists and nobody is undoing it.

    No freeze begins meanwhile: the task may be over, and then no freeze would reach it.
    """
    using = database.alias()
    task_id = Operation.objects.using(using).values_list("task_id", flat=True).get(pk=operation_id)
    with database.durable():
        frozen.share_clock()
        task = database.locked(Task.objects.filter(pk=task_id)).get()
        first = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        settle.refold([first], now)
        earlier = list(database.locked(Operation.objects.filter(compensates=first)))
        settle.refold([one for one in earlier if one.due_at is not None and one.due_at <= now], now)
        _require_undoable(first, earlier)
        held = frozen.read(now).holding(first.connector, record.action, lambda: task.owner_id)
        if held is not None:
            _decide(first, by, reason, now, Effect.NOTED, {"why": Frozen.reason, "freeze": held.pk})
            return frozen.refusal(held, first.connector, record.action, first.pk)
        request = _request(task, first, record, len(earlier) + 1)
        passed = _record(request, first, now)
        _decide(first, by, reason, now, Effect.APPLIED, {"by_operation": passed.operation})
        settle.refold([first], now)
    return passed


def _decide(first: Operation, by: Any, reason: str, now: datetime, effect: Effect, detail: dict[str, Any]) -> None:
    Decision.objects.using(database.alias()).create(
        task_id=first.task_id,
        operation=first,
        verb=Decided.COMPENSATE,
        effect=effect,
        by=by,
        reason=reason,
        detail=detail,
        at=now,
    )


def _require_undoable(first: Operation, earlier: list[Operation]) -> None:
    if first.compensates_id is not None:
        raise CannotCompensate(f"Operation {first.pk} is itself an undoing. Ask for the effect anew instead.")
    if first.state != OperationState.SUCCEEDED:
        raise CannotCompensate(
            f"Operation {first.pk} is {first.state}: only what is known to have been done is undone. Look it up first."
        )
    for one in earlier:
        if one.state == OperationState.SUCCEEDED:
            raise InFlight(f"Operation {first.pk} has been undone, by operation {one.pk}.")
        if one.state in UNDER_WAY:
            raise InFlight(f"Operation {first.pk} is being undone, by operation {one.pk} ({one.state}).")


def _request(task: Task, first: Operation, record: Compensation, number: int) -> Request:
    args = {"original_ref": first.ref, "original_key": str(first.idempotency_key)}
    return Request(
        task=task.pk,
        run=0,
        key=f"undo:{first.pk}:{number}",
        connector=first.connector,
        action=record.action,
        args=args,
        digest=bodies.digest(first.connector, record.action, args),
        capability=connectors.capability(first.connector, record.action),
        deadline=conf.DEADLINE,
    )


def _record(request: Request, first: Operation, now: datetime) -> Pass:
    """List the compensation and its attempt, before a byte leaves."""
    capability = request.capability
    lease = Lease(request.lease)
    lease_until = now + timedelta(seconds=request.lease + conf.LEASE_MARGIN)
    columns = {
        **listing(request, now),
        "state": OperationState.SENDING,
        "attempts": 1,
        "lease_until": lease_until,
        "resend_until": now + capability.resend_life if capability.resend_life else None,
        "due_at": lease_until,
        "follow_up_at": lease_until,
    }
    operation = Operation.objects.using(database.alias()).create(
        task_id=request.task, key=request.key, compensates=first, **columns
    )
    attempt = Attempt.objects.using(database.alias()).create(
        operation=operation,
        verb=Verb.SUBMIT,
        number=1,
        passed_at=now,
        lease_until=lease_until,
        settling=capability.settling,
        max_age=capability.max_age,
        sender=sender_name(),
        trace=telemetry.traceparent(),
    )
    return Pass(request, operation.pk, 1, attempt.pk, str(operation.idempotency_key), now, lease)
