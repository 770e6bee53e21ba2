"""Question: what a run asks a person, and what became of that."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agentstop.folds.question_states import Kind
from agentstop.models.fields import one_of, word_field
from agentstop.models.operation import Operation
from agentstop.models.task import Task


class Question(models.Model):
    """One question of one run to a person, unique in it by its key. Who answered, and what, is a Decision about it."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="questions", db_index=False)
    run = models.PositiveIntegerField()
    key = models.CharField(max_length=320)  # of the approval of a call: with the call's own key, of up to 255
    kind = word_field(Kind)
    text = models.TextField()
    choices = models.JSONField(default=list, blank=True)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, null=True, blank=True, related_name="questions"
    )  # that waits for the approval
    connector = models.CharField(max_length=255, blank=True)
    action = models.CharField(max_length=255, blank=True)
    details = models.TextField(blank=True)  # what would be sent, redacted, for people
    cut = models.BooleanField(default=False)  # only the beginning of the details is kept
    asked_at = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True)  # after which an answer is too late
    applied_at = models.DateTimeField(null=True, blank=True)  # written once: the run has taken the answer

    class Meta:
        default_permissions = ("view",)
        permissions = [("answer_question", "Can answer questions that runs of others ask")]
        constraints = [
            one_of("kind", Kind, "agentstop_question_kind"),
            models.UniqueConstraint(fields=["task", "run", "key"], name="agentstop_question_key"),
            models.CheckConstraint(
                name="agentstop_question_applied_after_asked",
                condition=Q(applied_at__isnull=True) | Q(applied_at__gte=models.F("asked_at")),
            ),
        ]

    def __str__(self) -> str:
        return f"question of run {self.run}"
