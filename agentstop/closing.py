"""What ends with a run: the tasks that work for it alone, and the operations that have left for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import BigIntegerField, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agentstop import conf, connectors, database, descendants, holding, settle, storing
from agentstop.models import Decision, Input, Operation, Receipt, Run, ServingLink, Task
from agentstop.models.facts import Decided, Effect
from agentstop.providers.base import Cancel
from agentstop.states import Cancellation, Claim, OperationState, RunState, TaskState

OPEN = (OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN)
MAY_GO_ON = Q(state__in=OPEN) | Q(another_open=True)  # something may still happen on the outside
THAT_MAY_GO_ON = f"(own.state IN ({', '.join(repr(str(state)) for state in OPEN)}) OR own.another_open)"  # the same
FINISHED = "finished"  # why a stop is noted where there was nothing to stop any more
FAMILY = "family"  # the policy by which a task is stopped because those that it worked for are


def require_hosts(policy: str) -> None:
    """ValueError for the name by which agentstop itself passes a decision on: it would be taken for one of those."""
    if policy == FAMILY:
        raise ValueError(f"policy={FAMILY!r} is agentstop's own. Name what decided in another word.")


def close_children(task: Task, run: int, decision: Decision, now: datetime, *, cancel: bool = True) -> list[int]:
    """Stop every task that works for this run alone; the ids of those that were stopped.

    Within a transaction that holds the family's and the task's lock. `cancel`: what they have sent is cancelled too.
    Those that had finished stay so, and no job that is delivered again begins them.
    """
    below = descendants.locked_below(task, run)
    if below.finished:
        _leave_finished(below.finished, decision, now)
    closed = list(below.alive)
    if closed:
        _stop(closed, decision, now)
        if cancel:
            going_on = descendants.of_those(Operation, THAT_MAY_GO_ON, closed)
            cancel_open_operations(Operation.objects.filter(pk__in=going_on), decision, now)
    return closed


def open_below(task: Task) -> list[int]:
    """The operations that may still have their effect, of all that is over for as long as no run of this task needs it.

    Those that were stopped with a run of it, and those that had finished by then.
    """
    using = database.alias()
    if not ServingLink.objects.using(using).filter(parent=task).exists():
        return []
    decisions = Decision.objects.using(using).filter(operation__isnull=True)
    causes = decisions.filter(task=task, verb__in=[Decided.STOP, Decided.START]).values("pk")
    reached = decisions.filter(cause__in=causes, verb=Decided.STOP, policy=FAMILY).values("task")
    still = Q(task__stop_decision__in=causes) | Q(task__late_stop__cause__in=causes)  # it was not begun again since
    rows = Operation.objects.using(using).filter(MAY_GO_ON, still, task__in=reached)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def cancel_below(task: Task, cause: Decision, now: datetime) -> None:
    """Ask for the cancelling of what is open below and nobody was asked about: of those that had finished, for one."""
    found = descendants.named(open_below(task))
    cancel_open_operations(Operation.objects.filter(pk__in=found, cancellation=Cancellation.NONE), cause, now)


def _stop(tasks: Sequence[int], cause: Decision, now: datetime) -> None:
    """Stop these tasks by a decision about another one, each with a decision of its own. They are locked."""
    live = descendants.of_those(Run, "own.state = 'live'", tasks)
    Run.objects.using(database.alias()).filter(pk__in=live).update(state=RunState.STOPPED, ended_at=now)
    stopped = Decision(verb=Decided.STOP, by=cause.by, policy=FAMILY, reason=cause.reason, cause=cause, at=now)
    storing.add_for_each(descendants.those(tasks), stopped, {"task_id": "id", "run": "live_run"})
    _hold_what_waits(tasks, cause, now)
    descendants.those(tasks).update(
        state=TaskState.STOPPED,
        state_since=now,
        live_run=None,
        stopped_at=now,
        stopped_by=cause.by,
        stop_reason=cause.reason,
        stop_decision=cause,
    )


def _leave_finished(tasks: Sequence[int], cause: Decision, now: datetime) -> None:
    """Note the stop of another task at these, which have finished: their jobs, delivered again, begin nothing."""
    noted = Decision(
        verb=Decided.STOP,
        effect=Effect.NOTED,
        by=cause.by,
        policy=FAMILY,
        reason=cause.reason,
        cause=cause,
        detail={"why": FINISHED},
        at=now,
    )
    storing.add_for_each(descendants.those(tasks), noted, {"task_id": "id", "run": "last_run"})
    _hold_what_waits(tasks, cause, now)
    descendants.those(tasks).update(late_stop=_own(cause))


def _own(cause: Decision) -> Subquery:
    """Of each task the decision that this one has caused, found by the task's index.

    By any other a database would look through all that were caused for each: those of the cause, and of the newest.
    """
    through = Coalesce("cause", 0, output_field=BigIntegerField())
    noted = Decision.objects.filter(task=OuterRef("pk"), verb=Decided.STOP, effect=Effect.NOTED)
    own = noted.alias(through=through).filter(through=cause.pk)
    return Subquery(own.order_by().values("task").annotate(last=Max(F("pk") + 0)).values("last"))


def _hold_what_waits(tasks: Sequence[int], cause: Decision, now: datetime) -> None:
    """What people have typed for these tasks is held, each by the stop of its own task."""
    waiting = Input.objects.using(database.alias()).filter(pk__in=descendants.of_those(Input, "own.waits", tasks))
    typed_for = sorted(set(waiting.values_list("task", flat=True)))
    stops = Decision.objects.using(database.alias()).filter(cause=cause, verb=Decided.STOP)
    for batch in database.batches(typed_for):
        found = stops.filter(task__in=batch)
        holding.hold({stop.task_id: stop for stop in found}, now)


def cancel_open_operations(found: QuerySet[Operation], cause: Decision, now: datetime) -> None:
    """Pass the stop on: what may still be under way, as these may, is to be cancelled, where its provider can."""
    ids = list(found.using(database.alias()).order_by("pk").values_list("pk", flat=True))
    for batch in database.batches(ids):
        _cancel(list(database.locked(Operation.objects.filter(MAY_GO_ON, pk__in=batch))), cause, now)


def _cancel(operations: Sequence[Operation], cause: Decision, now: datetime) -> None:
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
