"""Task, Run, and what binds tasks together."""

from __future__ import annotations

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.db.models import F, Q

from agentstop.models.fields import one_of, where_there_is, word_field
from agentstop.states import RunState, TaskState


class Family(models.Model):
    """Tasks connected by serving links; its row is the lock that begin, link, spawn and stop take first."""

    merged_into = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        verbose_name_plural = "families"
        default_permissions = ()

    def __str__(self) -> str:
        return f"Family {self.pk}"


class Tasks(models.QuerySet["Task"]):
    """What `Task.objects` can be asked."""

    def of(self, subject: models.Model) -> Tasks:
        """The tasks about this object of the host's."""
        if subject.pk is None:
            raise ValueError(f"This {subject._meta.verbose_name} was never saved: no task can be about it.")
        return self.filter(subject_type=ContentType.objects.get_for_model(subject), subject_id=str(subject.pk))


class Task(models.Model):
    """What a user asked for: the thing that Stop applies to. It lasts over several runs."""

    title = models.CharField(max_length=255)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="agentstop_tasks",
        db_index=False,
    )
    subject_type = models.ForeignKey(
        ContentType, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    subject_id = models.CharField(max_length=255, blank=True)
    subject = GenericForeignKey("subject_type", "subject_id")
    family = models.ForeignKey(Family, on_delete=models.PROTECT, related_name="tasks")
    detached = models.BooleanField(default=False)
    on_its_own = models.BooleanField(default=False)  # begun by a person while no run that it serves was live
    state = word_field(TaskState, default=TaskState.ACTIVE)
    state_since = models.DateTimeField()
    live_run = models.PositiveIntegerField(null=True, blank=True)  # the fencing token; null: no run is live
    last_run = models.PositiveIntegerField(default=0)
    freeze_epoch = models.PositiveBigIntegerField(default=0)  # of the last freeze that has reached it
    stopped_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    stop_reason = models.TextField(blank=True)
    stop_decision = models.ForeignKey(
        "agentstop.Decision", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    late_stop = models.ForeignKey(  # a press after it had finished: from then on only a person begins it again
        "agentstop.Decision", on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    created_at = models.DateTimeField()

    objects = Tasks.as_manager()

    class Meta:
        default_permissions = ("view",)
        permissions = [
            ("stop_task", "Can stop tasks of others"),
            ("pause_task", "Can pause tasks of others"),
            ("start_run", "Can start runs of tasks of others"),
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="agentstop_task_owner"),
            where_there_is("subject_type", "subject_id", name="agentstop_task_subject"),
            where_there_is("stopped_by", name="agentstop_task_stopped_by"),
            where_there_is("late_stop", name="agentstop_task_late_stop"),
            models.Index(
                fields=["id"], condition=Q(state__in=[TaskState.ACTIVE, TaskState.PAUSED]), name="agentstop_task_alive"
            ),
        ]
        constraints = [
            one_of("state", TaskState, "agentstop_task_state"),
            models.CheckConstraint(
                name="agentstop_task_stopped_has_a_time",
                condition=Q(state=TaskState.STOPPED, stopped_at__isnull=False) | ~Q(state=TaskState.STOPPED),
            ),
            models.CheckConstraint(
                name="agentstop_task_late_stop_of_a_finished_one",
                condition=Q(late_stop__isnull=True) | Q(state=TaskState.FINISHED),
            ),
            models.CheckConstraint(
                name="agentstop_task_over_has_no_live_run",
                condition=Q(live_run__isnull=True) | Q(state__in=[TaskState.ACTIVE, TaskState.PAUSED]),
            ),
            models.CheckConstraint(
                name="agentstop_task_live_run_is_the_last",
                condition=Q(live_run__isnull=True) | Q(live_run=F("last_run")),
            ),
        ]

    def __str__(self) -> str:
        return self.title


def id_of(task: Task | int) -> int:
    """The id of a task that is given as such or by its id; TypeError for anything else."""
    if isinstance(task, Task):
        return task.pk
    if type(task) is int:
        return task
    raise TypeError(f"Pass a task or its id, not {type(task).__name__} {str(task)[:50]!r}. Nothing was changed.")


class Run(models.Model):
    """One execution of a task. Its number is the fencing token; at most one is live."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs", db_index=False)
    number = models.PositiveIntegerField()
    state = word_field(RunState, default=RunState.LIVE)
    begun_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()  # the agent's last sign of life
    halted_at = models.DateTimeField(null=True, blank=True)  # the agent's process said that it has ended
    error = models.TextField(blank=True)

    class Meta:
        default_permissions = ("view",)
        indexes = [where_there_is("begun_by", name="agentstop_run_begun_by")]
        constraints = [
            one_of("state", RunState, "agentstop_run_state"),
            models.UniqueConstraint(fields=["task", "number"], name="agentstop_run_number"),
            models.UniqueConstraint(
                fields=["task"], condition=Q(state=RunState.LIVE), name="agentstop_run_one_live_for_a_task"
            ),
        ]

    def __str__(self) -> str:
        return f"Run {self.number} of {self.task_id}"


class ServingLink(models.Model):
    """The child serves this run of the parent, and goes on while a run that it serves is live."""

    child = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="serves", db_index=False)
    parent = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="served_by", db_index=False)
    parent_run = models.PositiveIntegerField()
    key = models.CharField(max_length=255, blank=True)  # the spawn key: in this run it names this child

    class Meta:
        default_permissions = ("view",)
        indexes = [models.Index(fields=["parent", "parent_run"], name="agentstop_link_parent")]
        constraints = [
            models.UniqueConstraint(fields=["child", "parent", "parent_run"], name="agentstop_link_once"),
            models.UniqueConstraint(
                fields=["parent", "parent_run", "key"], condition=~Q(key=""), name="agentstop_link_one_child_a_key"
            ),
            models.CheckConstraint(condition=~Q(child=F("parent")), name="agentstop_link_not_to_itself"),
        ]

    def __str__(self) -> str:
        return f"{self.child_id} serves run {self.parent_run} of {self.parent_id}"
