"""The context: what a task's runs have admitted, where the host keeps no sink of its own."""

from __future__ import annotations

from typing import Any

from django.db import models

from agentstop.bodies import Body, Form
from agentstop.models.facts import Call
from agentstop.models.fields import word_field
from agentstop.models.task import Task


class ContextEntry(models.Model):
    """One result that a live run admitted."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="context", db_index=False)
    run = models.PositiveIntegerField()
    call = models.OneToOneField(Call, on_delete=models.PROTECT, related_name="entry")
    body = models.TextField(blank=True)
    form = word_field(Form, default=Form.TEXT)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        verbose_name_plural = "context entries"
        indexes = [models.Index(fields=["task", "run", "id"], name="agentstop_context_run")]

    def __str__(self) -> str:
        return f"entry of run {self.run}"

    @property
    def value(self) -> Any:
        """The admitted result."""
        return Body(self.body, Form(self.form), len(self.body)).value
