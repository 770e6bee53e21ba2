"""Verifying: every stored state is folded again from its facts, at the time at which it was folded, and compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet

from agentstop import closing, database, frozen, storing
from agentstop.descendants import ALIVE
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.folds.histories import DecisionFact, fold_runs, fold_task
from agentstop.folds.input_states import fold_input
from agentstop.holding import facts_of as input_facts_of
from agentstop.models import Decision, Input, Operation, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.states import TaskState

# When it was folded and what follows on it are no part of what the facts say.
BESIDE = ("state_since", "folded_at", "follow_up_at", "follow_ups")
COLUMNS = tuple(column for column in storing.FOLDED if column not in BESIDE)


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored value that the facts do not give."""

    what: str  # "operation", "task", "run" or "input"
    id: int
    column: str
    stored: str
    folded: str

    def __str__(self) -> str:
        return f"{self.what} {self.id}: {self.column} is {self.stored}, the facts say {self.folded}"


def differences(task: int | None = None) -> Iterator[Difference]:
    """Every stored state that differs from what its facts say; nothing where all is well. Changes nothing."""
    operations = Operation.objects.using(database.alias())
    tasks = Task.objects.using(database.alias())
    inputs = Input.objects.using(database.alias())
    if task is not None:
        operations, tasks = operations.filter(task=task), tasks.filter(pk=task)
        inputs = inputs.filter(task=task)
    for ids in _batches(operations.all()):
        yield from _confirmed(_of_operations, Operation, ids)
    for ids in _batches(tasks.all()):
        yield from _confirmed(_of_tasks, Task, ids)
    for ids in _batches(inputs.all()):
        yield from _confirmed(_of_inputs, Input, ids)


def counted(task: int | None = None) -> tuple[int, int]:
    """How many operations and tasks there are to verify."""
    operations = Operation.objects.using(database.alias())
    tasks = Task.objects.using(database.alias())
    if task is None:
        return operations.count(), tasks.count()
    return operations.filter(task=task).count(), tasks.filter(pk=task).count()


def _batches(rows: QuerySet[Any]) -> Iterator[list[int]]:
    last = 0
    while batch := list(rows.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[: database.BATCH]):
        yield batch
        last = batch[-1]


def _confirmed(compare: Any, model: Any, ids: list[int]) -> Iterator[Difference]:
    """What differs at a first look is looked at again under its lock: a writer may have been between two queries."""
    rows = model.objects.using(database.alias())
    suspects = sorted({difference.id for difference in compare(list(rows.filter(pk__in=ids)))})
    if not suspects:
        return
    with transaction.atomic(using=database.alias()):
        database.limit_idleness()
        found = list(compare(list(database.locked(rows.filter(pk__in=suspects)))))
    yield from found


def _of_operations(operations: Sequence[Operation]) -> Iterator[Difference]:
    facts = facts_of(operations)
    for operation in operations:
        folded = fold(facts[operation.pk], operation.folded_at)
        for column in COLUMNS:
            stored, said = getattr(operation, column), getattr(folded, column)
            if stored != said:
                yield Difference("operation", operation.pk, column, str(stored), str(said))
        passed = len(facts[operation.pk].attempts)
        if operation.attempts != passed:
            yield Difference("operation", operation.pk, "attempts", str(operation.attempts), str(passed))


def _of_tasks(tasks: Sequence[Task]) -> Iterator[Difference]:
    decisions: dict[int, list[DecisionFact]] = defaultdict(list)
    applied = Decision.objects.using(database.alias()).filter(
        task__in=[task.pk for task in tasks], operation__isnull=True, effect=Effect.APPLIED
    )
    for decision in applied.order_by("pk"):
        decisions[decision.task_id].append(DecisionFact(decision.verb, decision.run, decision.pk, decision.cause_id))
    yield from _of_runs(tasks, decisions)
    late = _last_late_stops(tasks)
    for task in tasks:
        folded = fold_task(decisions[task.pk])
        for column in ("state", "live_run", "last_run"):
            stored, said = getattr(task, column), getattr(folded, column)
            if stored != said:
                yield Difference("task", task.pk, column, str(stored), str(said))
        if folded.state is TaskState.FINISHED:
            yield from _of_late_stop(task, decisions[task.pk], late.get(task.pk, 0))
    yield from _of_freezes(tasks)


def _last_late_stops(tasks: Sequence[Task]) -> dict[int, int]:
    """The last stop of each task that had finished before."""
    noted = Decision.objects.using(database.alias()).filter(
        task__in=[task.pk for task in tasks],
        operation__isnull=True,
        verb=Decided.STOP,
        effect=Effect.NOTED,
        detail__why=closing.FINISHED,
    )
    return dict(noted.values_list("task").annotate(last=Max("pk")).order_by())


def _of_late_stop(task: Task, decisions: Sequence[DecisionFact], last: int) -> Iterator[Difference]:
    """From a stop after its end on only a person begins it again."""
    end = next((each.id for each in reversed(decisions) if each.verb in (Decided.FINISH, Decided.FAIL)), 0)
    if (task.late_stop_id is not None) != (last > end):
        said = "a stop" if last > end else "None"
        yield Difference("task", task.pk, "late_stop", str(task.late_stop_id), said)


def _of_freezes(tasks: Sequence[Task]) -> Iterator[Difference]:
    """Every freeze in force has reached every task that could send something."""
    freezes = [one for one in frozen.in_force(database.now()) if one.in_force_at is not None]
    for task in tasks:
        reached = [one.epoch or 0 for one in freezes if not one.of_owner or one.owner_id == task.owner_id]
        said = max(reached, default=0)
        if task.state in ALIVE and task.freeze_epoch < said:
            yield Difference("task", task.pk, "freeze_epoch", str(task.freeze_epoch), str(said))


def _of_runs(tasks: Sequence[Task], decisions: dict[int, list[DecisionFact]]) -> Iterator[Difference]:
    rows = Run.objects.using(database.alias()).filter(task__in=[task.pk for task in tasks])
    said = {task.pk: fold_runs(decisions[task.pk]) for task in tasks}
    for run in rows.order_by("pk"):
        folded = said[run.task_id].get(run.number)
        if run.state != folded:
            yield Difference("run", run.task_id, f"run {run.number}", run.state, str(folded))


def _of_inputs(inputs: Sequence[Input]) -> Iterator[Difference]:
    facts = input_facts_of([row.pk for row in inputs])
    for row in inputs:
        waits = fold_input(facts[row.pk], None).waits
        if row.waits != waits:
            yield Difference("input", row.pk, "waits", str(row.waits), str(waits))
