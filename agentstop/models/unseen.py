"""What was settled after a task was closed, until it is told to those whom it concerns; and who has looked since."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from agentstop.models.operation import Operation
from agentstop.models.task import Task


class Unseen(models.Model):
    """An operation of a closed task whose unknown outcome was settled. No fact: gone when it has been told."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    operation = models.OneToOneField(Operation, on_delete=models.CASCADE, related_name="+")
    settled_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Operation {self.operation_id}, settled"


class Look(models.Model):
    """When a live page of a closed task was last open before somebody."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    seen_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["task", "user"], name="agentstop_look_one_each")]

    def __str__(self) -> str:
        return f"{self.user_id} at task {self.task_id}"
