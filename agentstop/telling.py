"""Signals leave with the commit of what they tell of: not before it, not without it, and once."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.dispatch import Signal

from agentstop import database, signals
from agentstop.models import Decision, Freeze, Operation, Question, Run, Task, Unseen
from agentstop.models.facts import Decided
from agentstop.states import FINAL_STATES, OperationState, TaskState

SETTLED = FINAL_STATES | {OperationState.NOT_SENT}
OVER = (TaskState.STOPPED, TaskState.FINISHED)


def of_tasks(signal: Signal, task_ids: tuple[int, ...], decision: Decision) -> None:
    """Tasks were stopped, paused or resumed by this decision; nothing is told of none."""
    if not task_ids or not signal.has_listeners(Task):
        return
    _with_commit(
        signal,
        Task,
        tasks=task_ids,
        task=decision.task_id,
        decision=decision.pk,
        by=decision.by,
        policy=decision.policy,
        reason=decision.reason,
        at=decision.at,
    )


def of_run(signal: Signal, task_id: int, run: int, at: datetime, **facts: Any) -> None:
    _with_commit(signal, Run, task=task_id, run=run, at=at, **facts)


def of_question(question: Question) -> None:
    """A run has asked a person."""
    told = {"kind": str(question.kind), "text": question.text, "until": question.until, "at": question.asked_at}
    _about_question(signals.question_asked, question, **told)


def of_reply(question: Question, reply: Decision) -> None:
    """A person's word about a question counts."""
    declined = reply.verb == Decided.DECLINE
    _about_question(signals.question_answered, question, declined=declined, by=reply.by, at=reply.at)


def _about_question(signal: Signal, question: Question, **facts: Any) -> None:
    _with_commit(signal, Question, task=question.task_id, run=question.run, question=question.pk, **facts)


def of_denial(decision: Decision) -> None:
    _with_commit(
        signals.decision_denied,
        Decision,
        task=decision.task_id,
        verb=str(decision.verb),
        by=decision.by,
        reason=decision.reason,
        at=decision.at,
    )


def of_denied_freeze(row: Freeze) -> None:
    """What was denied is kept among the freezes: it is about no single task."""
    _with_commit(
        signals.decision_denied,
        Freeze,
        task=None,
        verb="freeze" if row.lifts_id is None else "unfreeze",
        by=row.by,
        reason=row.reason,
        at=row.at,
    )


def asks_for_settlements() -> bool:
    """Whether anybody wants to hear of them: every receipt goes by here."""
    return signals.operation_settled.has_listeners(Operation) or asks_for_unseen()


def asks_for_unseen() -> bool:
    """Whether anybody wants to hear of what people have missed."""
    return bool(signals.unknowns_settled.has_listeners(Task))


def of_unseen(task_id: int, operations: tuple[int, ...], people: tuple[Any, ...], at: datetime) -> None:
    """These people have missed that the outcomes of these operations were settled."""
    _with_commit(signals.unknowns_settled, Task, task=task_id, operations=operations, people=people, at=at)


def _note_unseen(operation: Operation, now: datetime) -> None:
    """Kept with the settlement itself, for the worker: of a task that is over, somebody has perhaps left."""
    tasks = Task.objects.using(database.alias()).filter(pk=operation.task_id, state__in=OVER)
    if tasks.exists():
        row = Unseen(task_id=operation.task_id, operation=operation, settled_at=now)
        Unseen.objects.using(database.alias()).bulk_create(
            [row], update_conflicts=True, unique_fields=["operation"], update_fields=["settled_at"]
        )


def of_settlement(operation: Operation, before: str, now: datetime) -> None:
    """The operation has got another state. Told where that settles it, or where it was settled before."""
    after = operation.state
    if before == after or (after not in SETTLED and before not in SETTLED) or before == OperationState.PREPARED:
        return
    if before == OperationState.UNKNOWN and asks_for_unseen():
        _note_unseen(operation, now)
    transaction.on_commit(
        partial(_tell_of_settlement, operation.pk, operation.task_id, str(before), str(after), now),
        using=database.alias(),
        robust=True,
    )


def _tell_of_settlement(operation: int, task: int, before: str, after: str, at: datetime) -> None:
    stopped_at = Task.objects.using(database.alias()).filter(pk=task).values_list("stopped_at", flat=True).first()
    facts = {"before": before, "after": after, "stopped_at": stopped_at, "at": at}
    signals.tell(signals.operation_settled, Operation, task=task, operation=operation, **facts)


def _with_commit(signal: Signal, sender: type, **facts: Any) -> None:
    if signal.has_listeners(sender):
        transaction.on_commit(partial(signals.tell, signal, sender, **facts), using=database.alias(), robust=True)
