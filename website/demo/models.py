"""Job: one run that somebody asked of the demo's agent, waiting for a worker or taken by one."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils.translation import gettext

from agentstop.models import Task
from website.demo.steps import Effect, Kind, Step, Trouble, effects, follow_up, note_effects

# What a person asks for with a job; a new run has the same wishes.
WISHES = ("kind", "topic", "channel", "pace", "asks", "troubled", "troubles")


class JobState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"  # a worker has taken it, and holds it by lease
    OVER = "over"


class Job(models.Model):
    """The demo's queue is at-least-once, as real ones are: a job whose worker died is taken again.

    That never un-stops a task, since only a person may begin a stopped one.
    """

    LEASE = timedelta(seconds=10)

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="jobs")
    run = models.PositiveIntegerField(null=True, blank=True)  # null: no run has begun for it
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    kind = models.CharField(max_length=20, choices=Kind.choices, default=Kind.REPORT)
    topic = models.CharField(max_length=100)
    channel = models.CharField(max_length=60)
    pace = models.FloatField()  # seconds that the agent thinks before each step
    asks = models.BooleanField(default=False)  # a person, before the last step
    troubled = models.CharField(max_length=20, choices=Step.choices)  # the step at which the provider misbehaves
    troubles = models.JSONField(default=list, blank=True)
    state = models.CharField(max_length=20, choices=JobState.choices, default=JobState.QUEUED)
    worker = models.CharField(max_length=255, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    outcomes = models.JSONField(default=dict, blank=True)  # what the agent got for each step
    note = models.TextField(blank=True)  # how it ended
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["id"], condition=~models.Q(state="over"), name="demo_job_open"),
        ]

    def __str__(self) -> str:
        return f"Job {self.pk} of task {self.task_id}"

    @property
    def is_note(self) -> bool:
        return self.kind == Kind.NOTE

    @property
    def in_queue(self) -> str:
        """Where its steps are jobs of a queue, which, in words."""
        return {
            Kind.CHAIN.value: gettext("a chain of Celery jobs"),
            Kind.TASKS.value: gettext("jobs of Django's tasks"),
        }.get(self.kind, "")

    @property
    def wrongs(self) -> list[str]:
        """What the provider was told to do wrong, in words."""
        return [str(Trouble(name).label) for name in self.troubles]

    def effects(self) -> list[Effect]:
        """What the agent does for it, in order."""
        if self.kind == Kind.NOTE:
            return note_effects(self.task_id, self.topic)
        return effects(self.task_id, self.topic, self.channel, troubled=self.troubled, troubles=self.troubles)

    def follow_up(self, input_id: int, text: str) -> Effect:
        """What the agent does with a text that a person typed for it."""
        return follow_up(self.task_id, self.channel, input_id, text, kind=self.kind)
