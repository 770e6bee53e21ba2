"""What ends with a run: the tasks that work for it alone, and the operations that have left for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from agentstop import conf, connectors, database, descendants, holding, settle
from agentstop.models import Decision, Operation, Receipt, Run, Task
from agentstop.models.facts import Decided
from agentstop.providers.base import Cancel
from agentstop.states import Cancellation, Claim, OperationState, RunState, TaskState

OPEN = (OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN)
MAY_GO_ON = Q(state__in=OPEN) | Q(another_open=True)  # something may still happen on the outside
FAMILY = "family"  # the policy by which a task is stopped because those that it worked for are


def close_children(task: Task, run: int, decision: Decision, now: datetime, *, cancel: bool = True) -> list[int]:
    """Stop every task that works for this run alone; the ids of those that were stopped.

    Within a transaction that holds the family's and the task's lock. `cancel`: what they have sent is cancelled too.
    """
    descendants.mark(task, run, decision)
    closed: list[int] = []
    for children in descendants.marked(decision):
        stop_tasks(children, decision, now)
        closed += [child.pk for child in children]
    if cancel:
        for start in range(0, len(closed), descendants.BATCH):
            cancel_open_operations(closed[start : start + descendants.BATCH], decision, now)
    return closed


def stop_tasks(tasks: Sequence[Task], cause: Decision, now: datetime) -> None:
    """Stop tasks that are marked with a decision about another one, each with a decision of its own."""
    using, ids = database.alias(), [task.pk for task in tasks]
    Run.objects.using(using).filter(task__in=ids, state=RunState.LIVE).update(state=RunState.STOPPED, ended_at=now)
    stops = Decision.objects.using(using).bulk_create(
        Decision(
            task=task,
            run=task.live_run,
            verb=Decided.STOP,
            by=cause.by,
            policy=FAMILY,
            reason=cause.reason,
            cause=cause,
            at=now,
        )
        for task in tasks
    )
    holding.hold({stop.task_id: stop for stop in stops}, now)
    Task.objects.using(using).filter(pk__in=ids).update(
        state=TaskState.STOPPED,
        state_since=now,
        live_run=None,
        stopped_at=now,
        stopped_by=cause.by,
        stop_reason=cause.reason,
        stop_decision=cause,
    )


def cancel_open_operations(tasks: Sequence[int], cause: Decision, now: datetime) -> None:
    """Pass the stop on: what may still be under way is to be cancelled, where its provider can."""
    operations = list(database.locked(Operation.objects.filter(MAY_GO_ON, task__in=tasks)))
    asked = [operation for operation in operations if operation.cancellation == Cancellation.NONE]
    begun = _begun(asked)
    until = now + timedelta(seconds=conf.CANCEL_DEADLINE)
    Decision.objects.using(database.alias()).bulk_create(
        _cancel_decision(operation, cause, now, until, begun=operation.pk in begun) for operation in asked
    )
    if operations:
        settle.refold(operations, now)


def _begun(operations: Sequence[Operation]) -> set[int]:
    """The operations that their providers have said to be under way: some can be cancelled only before that."""
    said = Receipt.objects.using(database.alias()).filter(
        operation__in=[operation.pk for operation in operations], claim__in=[Claim.RUNNING, Claim.PROGRESS]
    )
    return set(said.values_list("operation", flat=True))


def _cancel_decision(operation: Operation, cause: Decision, now: datetime, until: datetime, *, begun: bool) -> Decision:
    capability = connectors.capability(operation.connector, operation.action)
    too_late = begun and capability.cancel is Cancel.UNTIL_STARTED
    return Decision(
        task_id=operation.task_id,
        operation=operation,
        verb=Decided.CANCEL,
        by=cause.by,
        policy=cause.policy,
        cause=cause,
        until=until,
        detail={"possible": capability.cancellable and not too_late, "needs_ref": capability.cancel_needs_ref},
        at=now,
    )
