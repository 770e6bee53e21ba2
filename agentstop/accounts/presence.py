"""Tasks with their last runs, and what else is stored about each: what is not there need not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from agentstop import database
from agentstop.composed import Composed
from agentstop.models import Freeze, Input, Operation, Question, Run, ServingLink, Task

PEOPLE = ("owner", "stopped_by", "stop_decision", "late_stop__by")


@dataclass(frozen=True, slots=True)
class Presence:
    """What is there at the moment at which the task is read. `freezes`: of any task."""

    operations: bool = False
    questions: bool = False
    inputs: bool = False
    links: bool = False
    freezes: bool = False


NOTHING = Presence()


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task as it is stored. `run`: its last one."""

    task: Task
    run: Run | None
    there: Presence
    read_at: datetime


def tasks(task_ids: Sequence[int]) -> list[TaskRow]:
    """Those of these tasks that there are, in one statement where all of them have begun."""
    using = database.alias()
    begun: list[Any] = _BEGUN.rows(task_ids, using)
    found = [TaskRow(run.task, run, _there(run), run.read_at) for run in begun]
    without = [pk for pk in dict.fromkeys(task_ids) if pk not in {row.task.pk for row in found}]
    queued: list[Any] = _QUEUED.rows(without, using)
    meanwhile: list[Any] = _BEGUN.rows([task.pk for task in queued if task.last_run], using)
    found += [TaskRow(run.task, run, _there(run), run.read_at) for run in meanwhile]
    known = {row.task.pk for row in found}
    return found + [TaskRow(task, None, _there(task), task.read_at) for task in queued if task.pk not in known]


def time_of(rows: Sequence[TaskRow]) -> datetime:
    """The database's time at which they were read; SQLite's own is coarse."""
    told = max((row.read_at for row in rows), default=None) if database.is_postgresql() else None
    return told or database.now()


def _begun(task_ids: Sequence[int]) -> QuerySet[Any]:
    last = Run.objects.filter(task__in=task_ids, number=F("task__last_run"))
    return last.select_related(*(f"task__{each}" for each in PEOPLE)).annotate(read_at=Now(), **_asked("task"))


def _queued(task_ids: Sequence[int]) -> QuerySet[Any]:
    return Task.objects.filter(pk__in=task_ids).select_related(*PEOPLE).annotate(read_at=Now(), **_asked("pk"))


_BEGUN, _QUEUED = Composed(_begun), Composed(_queued)


def _asked(task: str) -> dict[str, Exists]:
    """Together with the task, and so at the same moment."""
    own = OuterRef(task)
    return {
        "has_operations": Exists(Operation.objects.filter(task=own)),
        "has_questions": Exists(Question.objects.filter(task=own)),
        "has_inputs": Exists(Input.objects.filter(task=own)),
        "has_children": Exists(ServingLink.objects.filter(parent=own)),
        "has_parents": Exists(ServingLink.objects.filter(child=own)),
        "has_freezes": Exists(Freeze.objects.filter(epoch__isnull=False, lifted_at__isnull=True, over_at__isnull=True)),
    }


def _there(row: Any) -> Presence:
    return Presence(
        operations=row.has_operations,
        questions=row.has_questions,
        inputs=row.has_inputs,
        links=row.has_children or row.has_parents,
        freezes=row.has_freezes,
    )
