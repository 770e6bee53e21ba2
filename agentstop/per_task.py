"""One verb for many tasks: each by itself, so that a failure of one hides nothing of the others."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import models
from django.db.models import QuerySet

from agentstop import database, permissions
from agentstop.closing import MAY_GO_ON
from agentstop.descendants import ALIVE
from agentstop.exceptions import AgentStopError, Denied, TaskNotFound
from agentstop.models import Operation, Task
from agentstop.states import TaskState

logger = logging.getLogger(__name__)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Counted:
    """What there is before anything happens, of the tasks that the person may see; `denied` of them they may not touch.

    The other counts are of those that they may: running or paused, stopped, finished, and operations that have left and
    may still have their effect.
    """

    running: int = 0
    stopped: int = 0
    finished: int = 0
    denied: int = 0
    open_operations: int = 0


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """What one task answered: `report`, what the verb gives for one task; or `error`, why nothing happened."""

    task: int
    report: R | None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Answers(Generic[R]):
    """The counts before, and the answer of each task: those that were running first, each with a commit of its own."""

    before: Counted
    answers: tuple[Answer[R], ...]

    @property
    def failed(self) -> tuple[Answer[R], ...]:
        """The tasks that the verb did not reach, each with its error."""
        return tuple(answer for answer in self.answers if answer.error is not None)


def tasks_of(subject: models.Model) -> QuerySet[Task]:
    """The tasks about an object of the host's, oldest first, whoever they belong to."""
    return Task.objects.using(database.alias()).of(subject).order_by("pk")


def about(subject: Any, by: Any, verb: str) -> list[Task]:
    """The tasks about an object that this person may see; TaskNotFound where there is none for them."""
    if not isinstance(subject, models.Model):
        what = f"{type(subject).__name__} {str(subject)[:50]!r}"
        raise TypeError(f"Pass a task, its id, or an object that tasks are about, not {what}. Nothing was {verb}.")
    return seen(tasks_of(subject), by, f"about {subject._meta.verbose_name} {subject.pk}", verb)


def seen(tasks: QuerySet[Task], by: Any, which: str, verb: str) -> list[Task]:
    """Those of the tasks that the person may see (all, where no person asks): what works first, then by age.

    Where the rule raises about one, that is its answer, and the others are reached.
    """
    found = [task for task in tasks if by is None or _may(by, "view_task", task) is not False]
    if not found:
        raise TaskNotFound(f"There is no task {which} for you. Nothing was {verb}.")
    return sorted(found, key=lambda task: (task.state not in ALIVE, task.pk))


def count(tasks: Sequence[Task], by: Any, permission: str) -> Counted:
    """The counts of these tasks."""
    allowed = [task for task in tasks if by is None or _may(by, permission, task)]
    states = Counter(task.state for task in allowed)
    return Counted(
        running=states[TaskState.ACTIVE] + states[TaskState.PAUSED],
        stopped=states[TaskState.STOPPED],
        finished=states[TaskState.FINISHED],
        denied=len(tasks) - len(allowed),
        open_operations=_open([task.pk for task in allowed]),
    )


def _may(by: Any, permission: str, task: Task) -> bool | None:
    """None where the rule raises."""
    try:
        return permissions.may(by, permission, task)
    except Exception:
        logger.exception("the rule of AGENTSTOP_MAY failed", extra={"action": "rule_failed", "task": task.pk})
        return None


def _open(task_ids: Sequence[int]) -> int:
    operations = Operation.objects.using(database.alias()).filter(MAY_GO_ON)
    return sum(operations.filter(task__in=batch).count() for batch in database.batches(task_ids))


def answered(tasks: Sequence[Task], by: Any, permission: str, do: Callable[[Task], R]) -> Answers[R]:
    """Do it to each. Denied where the person may do it to none of them."""
    before = count(tasks, by, permission)
    answers = each(tasks, do)
    refusals = [answer.error for answer in answers if isinstance(answer.error, Denied)]
    if len(refusals) == len(tasks):
        raise refusals[0]
    return Answers(before, answers)


def each(tasks: Iterable[Task], do: Callable[[Task], R]) -> tuple[Answer[R], ...]:
    """What each of them answered; an error of one is its answer."""
    return tuple(_answer(task, do) for task in tasks)


def _answer(task: Task, do: Callable[[Task], R]) -> Answer[R]:
    try:
        return Answer(task.pk, do(task))
    except AgentStopError as error:
        return Answer(task.pk, None, error)
    except Exception as error:
        logger.exception("one of many tasks failed", extra={"action": "one_of_many_failed", "task": task.pk})
        return Answer(task.pk, None, error)
