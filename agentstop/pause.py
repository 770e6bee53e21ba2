"""Pause: dispatch is held and the run stays live; what works for it alone is held too, until every cause is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack, overload

from django.db import models
from django.db.models import QuerySet

from agentstop import bodies, database, descendants, family, holds, per_task, permissions, wake
from agentstop.closing import FAMILY, require_hosts
from agentstop.exceptions import TaskNotFound
from agentstop.models import Decision, Task
from agentstop.models.facts import Decided, Effect
from agentstop.models.task import id_of
from agentstop.per_task import Answers
from agentstop.sending import in_domain
from agentstop.states import TaskState


class How(TypedDict, total=False):
    """The keyword arguments of `pause` and `resume`."""

    by: Any
    reason: str
    policy: str


@overload
def pause(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
def pause(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
def pause(
    task: Task | models.Model | int, *, by: Any = None, reason: str = "", policy: str = ""
) -> bool | Answers[bool]:
    """Hold the task's dispatch; False where it is paused by a cause of its own, or over: that is noted.

    What has left goes on. Callers wait; tasks that work for it alone are held too. For an object of the host's: every
    task about it that the person may see, with an answer for each. Raises TaskNotFound or Denied;
    ValueError where `policy` is agentstop's own "family".
    """
    require_hosts(policy)
    if not isinstance(task, Task | int):
        return _about(task, Decided.PAUSE, _pause, by, reason, policy)
    return _pause(_checked(task, by, Decided.PAUSE, reason), by, bodies.reason(reason), policy)


@overload
def resume(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
def resume(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
def resume(
    task: Task | models.Model | int, *, by: Any = None, reason: str = "", policy: str = ""
) -> bool | Answers[bool]:
    """Let the same run go on; False where no cause of its own holds it. What its parents hold stays held.

    For an object of the host's as `pause`; so are the errors.
    """
    require_hosts(policy)
    if not isinstance(task, Task | int):
        return _about(task, Decided.RESUME, _resume, by, reason, policy)
    return _resume(_checked(task, by, Decided.RESUME, reason), by, bodies.reason(reason), policy)


@overload
async def apause(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
async def apause(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
async def apause(task: Task | models.Model | int, **how: Unpack[How]) -> bool | Answers[bool]:
    """As `pause`."""
    return await in_domain(partial(pause, task, **how))


@overload
async def aresume(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
async def aresume(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
async def aresume(task: Task | models.Model | int, **how: Unpack[How]) -> bool | Answers[bool]:
    """As `resume`."""
    return await in_domain(partial(resume, task, **how))


def _about(
    subject: models.Model, verb: Decided, do: Callable[[int, Any, str, str], bool], by: Any, reason: str, policy: str
) -> Answers[bool]:
    return per_task.answered(
        per_task.about(subject, by, f"{verb}d"),
        by,
        "pause_task",
        lambda task: do(_checked(task, by, verb, reason), by, bodies.reason(reason), policy),
    )


def _checked(task: Task | int, by: Any, verb: Decided, reason: str) -> int:
    task_id = id_of(task)
    found = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if found is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    if by is not None:
        permissions.require(by, "pause_task", found, verb, reason=bodies.reason(reason))
    return task_id


@database.retried
def _pause(task_id: int, by: Any, reason: str, policy: str) -> bool:
    with database.durable():
        task, now = _locked(task_id), database.now()
        alive, own = task.state in descendants.ALIVE, _own(task_id).exists()
        effect = Effect.APPLIED if alive and not own else Effect.NOTED
        cause = _decided(task, Decided.PAUSE, now, by=by, policy=policy, reason=reason, effect=effect)
        held = _applied(task, cause, now) if effect == Effect.APPLIED else []
    wake.announce(*held, over=True)
    return effect == Effect.APPLIED


@database.retried
def _resume(task_id: int, by: Any, reason: str, policy: str) -> bool:
    with database.durable():
        task, now = _locked(task_id), database.now()
        own: list[Decision | None] = [*_own(task_id)] if task.state == TaskState.PAUSED else []
        effect = Effect.APPLIED if own else Effect.NOTED
        for cause in own or [None]:
            lifted = _decided(
                task, Decided.RESUME, now, by=by, policy=policy, reason=reason, cause=cause, effect=effect
            )
        freed = _applied(task, lifted, now) if own else []
    wake.announce(*freed, over=True)
    return bool(own)


def _own(task_id: int) -> QuerySet[Decision]:
    """The pauses of the task itself that hold it."""
    return holds.open_causes(task_id).exclude(policy=FAMILY)


def _applied(task: Task, told: Decision, now: datetime) -> list[int]:
    """The ids of the task, and of all that are held or go on with it, who are told."""
    changed = holds.apply(descendants.alive_below([task.pk]), told, now)
    touched = [task.pk, *(pk for pk in changed if pk != task.pk)]
    wake.notify_on_commit(touched)
    return touched


def _locked(task_id: int) -> Task:
    task = family.locked_task(task_id)
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    return task


def _decided(task: Task, verb: Decided, now: datetime, **columns: Any) -> Decision:
    return Decision.objects.using(database.alias()).create(task=task, run=task.live_run, verb=verb, at=now, **columns)
