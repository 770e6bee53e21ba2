"""Django's own tasks where Django has them, else those of the backport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from django.tasks import Task, TaskResult, task_backends

    AnyTask = Task[..., Any]
    AnyResult = TaskResult[..., Any]
elif django.VERSION >= (6, 0):
    from django.tasks import Task, task_backends

    AnyTask = Task
else:
    from django_tasks import task_backends
    from django_tasks.base import Task

    AnyTask = Task

__all__ = ["AnyTask", "Task", "task_backends"]
if TYPE_CHECKING:
    __all__ += ["AnyResult"]
