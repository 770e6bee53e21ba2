"""Runs that are meant to be live, and whose process has given no sign of life for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet

from agentstop import conf, database
from agentstop.models import Attempt, Operation, Run, Task
from agentstop.states import OperationState, RunState, TaskState


def after() -> timedelta:
    """How long nobody has to be heard of to count as silent."""
    return timedelta(seconds=float(conf.SILENCE))


def silent(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Those of the tasks whose live run is silent: no heartbeat, no check, nothing sent, and no answer waited for."""
    now = database.now()
    limit = now - after()
    runs = Run.objects.filter(task=OuterRef("pk"), state=RunState.LIVE, seen_at__lt=limit)
    sent = Attempt.objects.filter(operation__task=OuterRef("pk"), run=OuterRef("live_run"), passed_at__gte=limit)
    return tasks.filter(
        Exists(runs), ~Exists(sent), ~Exists(_waited_for(now)), state__in=[TaskState.ACTIVE, TaskState.PAUSED]
    )


def _waited_for(now: datetime) -> QuerySet[Operation]:
    return Operation.objects.filter(task=OuterRef("pk"), state=OperationState.SENDING, lease_until__gt=now)
