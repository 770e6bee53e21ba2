"""After a backup was restored: what was stopped since must not live again, and no old name may mean something new."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import F, Max, Model

from agentstop import database, holding
from agentstop.models import Decision, Input, Operation, Question, Task
from agentstop.models.facts import Decided
from agentstop.states import TaskState
from agentstop.stop import StopReport, stop

POLICY = "after_restore"
REASON = "Restored from a backup: what was decided after it was taken is not known here."
RUNS = 1_000  # more than a task may have begun since the backup
IDS = 1_000_000  # more than may have been made since the backup


def live() -> Iterator[Task]:
    """The tasks that were active when the backup was taken."""
    tasks = Task.objects.using(database.alias()).filter(state__in=[TaskState.ACTIVE, TaskState.PAUSED])
    yield from tasks.order_by("pk").iterator()


def stop_live() -> Iterator[StopReport]:
    """Stop them: a stop that came after the backup would be forgotten otherwise."""
    for task in live():
        yield stop(task.pk, policy=POLICY, reason=REASON)


def leave_names_behind() -> None:
    """Let run numbers and ids go on behind all that the backup does not know of.

    Agents, tokens and jobs of the time since may still be about: what they name is never begun again under that name.
    Input that waits is held.
    """
    with database.durable():
        tasks = Task.objects.using(database.alias()).filter(live_run__isnull=True)
        tasks.update(last_run=F("last_run") + RUNS)
        now = database.now()
        Decision.objects.using(database.alias()).bulk_create(
            (
                Decision(task_id=pk, run=last, verb=Decided.RESTORE, policy=POLICY, reason=REASON, at=now)
                for pk, last in tasks.values_list("pk", "last_run").iterator()
            ),
            batch_size=500,
        )
        _hold_what_waits(now)
        for model in (Task, Operation, Question, Input):
            _skip_ids(model)


def _hold_what_waits(now: datetime) -> None:
    """What people had typed by then may have been sent or withdrawn since: a person says again what is to be sent."""
    waiting = Input.objects.using(database.alias()).filter(waits=True)
    tasks = sorted(set(waiting.values_list("task", flat=True)))
    restored = Decision.objects.using(database.alias()).filter(verb=Decided.RESTORE, at=now)
    for batch in database.batches(tasks):
        found = restored.filter(task__in=batch)
        holding.hold({decision.task_id: decision for decision in found}, now)


def _skip_ids(model: type[Model]) -> None:
    table = model._meta.db_table
    last = model._default_manager.using(database.alias()).aggregate(last=Max("pk"))["last"] or 0
    with database.connection().cursor() as cursor:
        if database.is_postgresql():
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, last + IDS])
        else:
            cursor.execute("UPDATE sqlite_sequence SET seq = %s WHERE name = %s", [last + IDS, table])
