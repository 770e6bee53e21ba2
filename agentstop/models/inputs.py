"""Input: what a person typed for a task, and the facts of what became of it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from agentstop.folds.input_states import Became
from agentstop.models.facts import Decision
from agentstop.models.fields import one_of, word_field
from agentstop.models.task import Task


class Input(models.Model):
    """One text for the agent, kept until a run takes it or a person withdraws it."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="inputs", db_index=False)
    body = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    at = models.DateTimeField()
    waits = models.BooleanField(default=True)  # cached from its facts: the next run that asks gets it

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["task", "id"], name="agentstop_input_task"),
            models.Index(fields=["task", "id"], condition=Q(waits=True), name="agentstop_input_waits"),
        ]

    def __str__(self) -> str:
        return f"input {self.pk} of {self.task_id}"


class InputEvent(models.Model):
    """One fact about what became of an input."""

    input = models.ForeignKey(Input, on_delete=models.PROTECT, related_name="events")
    became = word_field(Became)
    run = models.PositiveIntegerField(null=True, blank=True)  # that took it, or was done with it
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    # The stop that holds it, or the restoring of a backup.
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = [
            one_of("became", Became, "agentstop_input_event_word"),
            models.UniqueConstraint(
                fields=["input", "run", "became"],
                condition=Q(run__isnull=False),
                name="agentstop_input_event_once_a_run",
            ),
            models.CheckConstraint(
                name="agentstop_input_event_held_by_a_stop",
                condition=Q(became=Became.HELD, decision__isnull=False)
                | (~Q(became=Became.HELD) & Q(decision__isnull=True)),
            ),
            models.CheckConstraint(
                name="agentstop_input_event_taken_by_a_run",
                condition=Q(became__in=[Became.TAKEN, Became.DONE], run__isnull=False)
                | (~Q(became__in=[Became.TAKEN, Became.DONE]) & Q(run__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.became} {self.input_id}"
