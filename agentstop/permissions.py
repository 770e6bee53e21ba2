"""Who may do what to a task: one rule, asked for each object before anything happens, and replaceable by a setting."""

from __future__ import annotations

from typing import Any, Protocol

from django.db.models import Q, QuerySet
from django.utils.module_loading import import_string

from agentstop import conf, database, telling
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Decision, Question, Task
from agentstop.models.facts import Decided, Effect


class Rule(Protocol):
    """The type of the function named by AGENTSTOP_MAY: may this user do this to this task?"""

    def __call__(self, user: Any, permission: str, task: Task) -> bool: ...


def owner_or_permission(user: Any, permission: str, task: Task) -> bool:
    """The owner may everything with it; others what Django's permissions say, for all tasks or for this one."""
    if not user.is_active or not user.is_authenticated:
        return False
    if task.owner_id is not None and task.owner_id == user.pk:
        return True
    return bool(user.has_perm(permission) or user.has_perm(permission, task))


def may(user: Any, permission: str, task: Task) -> bool:
    """Whether the user has `agentstop.<verb>_<model>` for this task, by the rule that the settings name."""
    rule: Rule = import_string(conf.MAY)
    return rule(user, f"agentstop.{permission}", task)


def visible(user: Any) -> QuerySet[Task]:
    """The tasks that a list may show to this user: their own, or all with the general permission to view."""
    tasks = Task.objects.using(database.alias())
    if not user.is_active or not user.is_authenticated:
        return tasks.none()
    return tasks.all() if user.has_perm("agentstop.view_task") else tasks.filter(Q(owner_id=user.pk))


def get_visible(user: Any, task_id: int) -> Task:
    """The task, or TaskNotFound: a stranger learns nothing, not even that it exists."""
    task = _found(task_id)
    if task is None or not may(user, "view_task", task):
        raise _not_for_you(task_id)
    return task


def get_allowed(user: Any, permission: str, task_id: int, verb: Decided, *, reason: str = "") -> Task:
    """The task, for a user who may do this to it and see it; else as `require`; TaskNotFound where there is none."""
    task = _found(task_id)
    if task is None:
        raise _not_for_you(task_id)
    require(user, permission, task, verb, reason=reason)
    require(user, "view_task", task, verb, reason=reason)  # what is answered tells of it
    return task


def _found(task_id: int) -> Task | None:
    return Task.objects.using(database.alias()).filter(pk=task_id).first()


def _not_for_you(task_id: int) -> TaskNotFound:
    return TaskNotFound(f"There is no task {task_id} for you. Check the address, or ask its owner.")


def require(
    user: Any, permission: str, task: Task, verb: Decided, *, reason: str = "", question: Question | None = None
) -> None:
    """Pass, or record the denied attempt and raise: Denied for one who may see the task, TaskNotFound for others."""
    if may(user, permission, task):
        return
    person = user if getattr(user, "is_authenticated", False) else None
    denied = Decision.objects.using(database.alias()).create(
        task=task, question=question, verb=verb, effect=Effect.DENIED, by=person, reason=reason, at=database.now()
    )
    telling.of_denial(denied)
    if not may(user, "view_task", task):
        raise _not_for_you(task.pk)
    raise Denied(f"You may see task {task.pk}, and not {verb} it. Ask its owner or an operator.")
