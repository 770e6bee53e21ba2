"""Inputs under their task's lock: which wait, what their facts say, and how a stop holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import QuerySet

from agentstop import database
from agentstop.exceptions import TaskNotFound
from agentstop.folds.input_states import Became, InputFact
from agentstop.models import Decision, Input, InputEvent, Task


def hold(stops: Mapping[int, Decision], now: datetime) -> list[int]:
    """Keep everything that waits for these tasks, each by the stop of its own task; the ids of what is held now.

    Within the transaction that stops them: an input is held by the stop, or was taken before it, and nothing else.
    """
    held: list[int] = []
    tasks = sorted(stops)
    for batch in database.batches(tasks):
        rows = list(waiting(batch))
        InputEvent.objects.using(database.alias()).bulk_create(
            (InputEvent(input=row, became=Became.HELD, decision=stops[row.task_id], at=now) for row in rows),
            batch_size=database.BATCH,
        )
        set_waits(rows, waits=False)
        held += [row.pk for row in rows]
    return held


def locked_task(task_id: int) -> Task:
    """The task, locked: a stop comes before, and holds what is there; or it comes after."""
    task = database.locked(Task.objects.filter(pk=task_id)).first()
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    return task


def waiting(tasks: Sequence[int]) -> QuerySet[Input]:
    """What the next run of each of these tasks gets, in the order in which it was typed."""
    return Input.objects.using(database.alias()).filter(task__in=tasks, waits=True).order_by("pk")


def set_waits(rows: Iterable[Input], *, waits: bool) -> None:
    chosen = [row.pk for row in rows]
    for batch in database.batches(chosen):
        Input.objects.using(database.alias()).filter(pk__in=batch).update(waits=waits)


def facts_of(inputs: Sequence[int]) -> Mapping[int, Sequence[InputFact]]:
    """The facts of these inputs by id, in order."""
    found: dict[int, list[InputFact]] = defaultdict(list)
    events = InputEvent.objects.using(database.alias()).order_by("pk")
    for batch in database.batches(inputs):
        rows = events.filter(input__in=batch).values_list("input", "became", "run")
        for pk, became, run in rows:
            found[pk].append(InputFact(Became(became), run))
    return {pk: found[pk] for pk in inputs}
