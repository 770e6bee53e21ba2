"""The host's own sink: its writes and the check that the run is still live are one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from agentstop import database, wake
from agentstop.exceptions import Stale
from agentstop.models import Call, Operation, Task
from agentstop.models.facts import CallOutcome


@contextmanager
def admitting(task_id: int, number: int, operation: int) -> Iterator[None]:
    """Write inside; the last statement locks the task and looks again, so that a slow body never holds up a stop.

    Raises Stale, and rolls the writes back, where the run was over; the operation's receipt is kept all the same.
    """
    tasks = Task.objects.using(database.alias()).filter(pk=task_id)
    _require_live(tasks.first(), number, operation)
    with transaction.atomic(using=database.alias()):
        yield
        database.limit_idleness()
        _require_live(database.locked(tasks).first(), number, operation)
        if not Operation.objects.using(database.alias()).filter(pk=operation, task=task_id).exists():
            raise ValueError(f"Operation {operation} is none of task {task_id}: its result cannot be admitted there.")
        now = database.now()
        calls = Call.objects.using(database.alias())
        if not calls.filter(operation=operation, run=number, outcome=CallOutcome.ACCEPTED).exists():
            calls.create(operation_id=operation, run=number, outcome=CallOutcome.ACCEPTED, admitted_at=now, at=now)
    wake.announce(task_id)


def _require_live(task: Task | None, number: int, operation: int) -> None:
    if task is None or task.live_run != number:
        raise Stale(
            f"Run {number} was over before the result of operation {operation} could be admitted. Nothing was written; "
            "the receipt is kept."
        )
