"""Time that passes at once: everything that is stored about a task becomes so much older."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import F

from agentstop.models import (
    Attempt,
    Call,
    ContextEntry,
    Decision,
    Input,
    InputEvent,
    Operation,
    Question,
    Receipt,
    Run,
    Task,
)

OF_A_TASK: dict[type[models.Model], str] = {
    Task: "pk",
    Run: "task",
    Operation: "task",
    Decision: "task",
    Question: "task",
    ContextEntry: "task",
    Attempt: "operation__task",
    Receipt: "operation__task",
    Call: "operation__task",
    Input: "task",
    InputEvent: "input__task",
}


def let_pass(task_id: int, seconds: float) -> None:
    """As if nobody had done anything about this task for so long."""
    for model, path in OF_A_TASK.items():
        moments = [field.name for field in model._meta.fields if isinstance(field, models.DateTimeField)]
        older = {name: F(name) - timedelta(seconds=seconds) for name in moments}
        model._default_manager.filter(**{path: task_id}).update(**older)
