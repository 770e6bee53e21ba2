"""Stopping many tasks at once: all of a person's, or those that a query names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet

from agentstop import closing, database, per_task
from agentstop.descendants import ALIVE
from agentstop.models import Operation, Task
from agentstop.per_task import Answers, Counted
from agentstop.sending import in_domain
from agentstop.states import Cancellation, TaskState
from agentstop.stop import StopReport, stop

Whose = QuerySet[Task] | models.Model
"""Which tasks: those of a query, or all of a user's that a stop would end something of."""


def count_before(whose: Whose, *, by: Any = None) -> Counted:
    """What `stop_all` would meet, for the page that asks first. TaskNotFound where it would meet nothing."""
    return per_task.count(_meant(whose, by), by, "stop_task")


def stop_all(
    whose: Whose,
    *,
    by: Any = None,
    reason: str = "",
    policy: str = "",
    seen: Mapping[int, int] | None = None,
    cancel: bool = True,
) -> Answers[StopReport]:
    """Stop each of these tasks in a commit of its own, those that run first; the counts before and an answer for each.

    `whose`: a query of tasks, or a user. `seen`: for a task's id the number of the run that the person saw, as `run` of
    `stop`; a newer one is not stopped, and one that never was is that task's error. What begins meanwhile is not
    stopped either: a freeze holds that. Raises TaskNotFound where there is nothing for this person, Denied where they
    may stop none of it.
    """
    closing.require_hosts(policy)
    runs = _seen(seen)
    return per_task.answered(
        _meant(whose, by),
        by,
        "stop_task",
        lambda task: stop(task.pk, by=by, reason=reason, policy=policy, run=runs.get(task.pk), cancel=cancel),
    )


async def astop_all(
    whose: Whose,
    *,
    by: Any = None,
    reason: str = "",
    policy: str = "",
    seen: Mapping[int, int] | None = None,
    cancel: bool = True,
) -> Answers[StopReport]:
    """As `stop_all`."""
    return await in_domain(stop_all, whose, by=by, reason=reason, policy=policy, seen=seen, cancel=cancel)


def _seen(seen: Mapping[int, int] | None) -> Mapping[int, int]:
    """ValueError where a task is named without its run: whatever runs of it would be stopped, whoever saw it or not."""
    for task, run in (seen or {}).items():
        if run is None:
            raise ValueError(f"seen names no run of task {task}: pass the number that was seen. Nothing was stopped.")
    return seen or {}


def _meant(whose: Whose, by: Any) -> list[Task]:
    if isinstance(whose, QuerySet):
        return per_task.seen(whose, by, "among these", "stopped")
    return per_task.seen(_work_of(whose), by, f"of {whose} that is at work", "stopped")


def _work_of(user: models.Model) -> QuerySet[Task]:
    """A person's tasks that run, or that have finished and left something under way that nobody asked to cancel."""
    left = Operation.objects.filter(closing.MAY_GO_ON, task=OuterRef("pk"), cancellation=Cancellation.NONE)
    tasks = Task.objects.using(database.alias()).filter(owner=user.pk)
    return tasks.filter(Q(state__in=ALIVE) | Q(Exists(left), state=TaskState.FINISHED))
