"""Who may do what to a task: one rule, asked for each object before anything happens, and replaceable by a setting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from django.db.models import Model, Q, QuerySet
from django.utils.module_loading import import_string

from agentstop import conf, database, telling
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Decision, Question, Task
from agentstop.models.facts import Decided, Effect

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Task)
M = TypeVar("M", bound=Model)
OWN_RULE = "agentstop.permissions.owner_or_permission"


class Rule(Protocol):
    """The type of the function named by AGENTSTOP_MAY: may this user do this to this task?

    It may have an attribute `visible`, a function `(user, tasks) -> tasks` on queries: the tasks among which lists,
    counts, boards and the admin look for this user. Each that is shown or acted on is asked for by the rule itself.
    """

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
    return _rule()(user, f"agentstop.{permission}", task)


def visible(user: Any) -> QuerySet[Task]:
    """The tasks among which a list looks for this user; what it shows, names or counts one by one is `seen` of these.

    Where the rule does not say it (`Rule`): their own, or all with the general permission to view.
    """
    tasks = Task.objects.using(database.alias())
    if not user.is_active or not user.is_authenticated:
        return tasks.none()
    of_rule = _visible_by_rule()
    if of_rule is not None:
        return of_rule(user, tasks)
    return tasks.all() if user.has_perm("agentstop.view_task") else tasks.filter(Q(owner_id=user.pk))


def seen(user: Any, tasks: Iterable[T]) -> Iterator[T]:
    """Those of these tasks that the user may see."""
    return (task for task in tasks if sees(user, task))


def sees(user: Any, task: Task) -> bool:
    """Whether the user may see it, for lists: a rule that raises about one task hides that one, and says so."""
    try:
        return may(user, "view_task", task)
    except Exception:
        logger.exception("the rule of AGENTSTOP_MAY failed", extra={"action": "rule_failed", "task": task.pk})
        return False


def narrowed(user: Any, rows: QuerySet[M], to_task: str) -> QuerySet[M]:
    """Rows whose tasks are among those that the rule says are visible, for who may see all where it says nothing.

    `to_task`: the way from a row to its task, empty where it is one.
    """
    if _visible_by_rule() is None:
        return rows
    return rows.filter(**{f"{to_task or 'pk'}__in": visible(user).order_by().values("pk")})


def counts_by_query() -> bool:
    """Whether a query alone tells which tasks a user may see; a rule of the host's has to be asked for each."""
    return conf.MAY == OWN_RULE


def _rule() -> Rule:
    rule: Rule = import_string(conf.MAY)
    return rule


def _visible_by_rule() -> Callable[[Any, QuerySet[Task]], QuerySet[Task]] | None:
    return getattr(_rule(), "visible", None)


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
