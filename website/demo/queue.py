"""The demo's queue: jobs are rows that a worker takes by lease, so that none is lost when a worker dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.models import Q

from agentstop import database, lifecycle, permissions, runs, wake
from agentstop.exceptions import AgentStopError
from agentstop.models import Run as RunRow
from agentstop.models import Task
from agentstop.models.facts import Decided
from agentstop.runs import Run
from website.demo.models import WISHES, Job, JobState


class AlreadyRunning(AgentStopError):
    """A run of the task is under way."""


def enqueue(owner: Any, wishes: dict[str, Any]) -> Job:
    """A new task, waiting for a worker; it can be stopped before one takes it."""
    task = lifecycle.create(wishes["topic"], owner=owner)
    return _put(task, owner, None, wishes)


def enqueue_again(task: Task, by: Any, wishes: dict[str, Any]) -> Job:
    """A new run of a task that is over, begun now by this person: a stop that comes later stops this run too."""
    permissions.require(by, "start_run", task, Decided.START)
    if task.live_run is not None or open_jobs(task):
        raise AlreadyRunning(f"Task {task.pk} is under way. Stop it before you start it again.")
    run = runs.begin(task, by=by)
    with kept_or_failed(run):
        return _put(task, by, run.number, wishes)


@contextmanager
def kept_or_failed(run: Run) -> Iterator[None]:
    """A run whose job could not be written down has failed: otherwise it is live for ever with nobody at work."""
    try:
        yield
    except Exception as error:
        run.fail(f"{type(error).__name__}: {error}")
        raise


def start(run: Run) -> None:
    """A job for a run that a person has begun: the same wishes as the last time."""
    last = Job.objects.filter(task=run.task_id).latest("pk")
    begun_by = RunRow.objects.get(task=run.task_id, number=run.number).begun_by
    wishes = {name: getattr(last, name) for name in WISHES}
    with kept_or_failed(run):
        _put(last.task, begun_by, run.number, wishes)


def open_jobs(task: Task) -> bool:
    """Whether a worker has, or will take, a job of it that could still begin a run."""
    return task.state == "active" and Job.objects.filter(task=task).exclude(state=JobState.OVER).exists()


@database.retried
def _put(task: Task, by: Any, run: int | None, wishes: dict[str, Any]) -> Job:
    job = Job.objects.create(task=task, asked_by=by, run=run, **wishes)
    wake.announce(task.pk)
    return job


@database.retried
def take(worker: str) -> Job | None:
    """The oldest job that waits, or whose worker was not heard of in time; it is this worker's until its lease ends."""
    now = database.now()
    waits = Q(state=JobState.QUEUED) | Q(state=JobState.RUNNING, lease_until__lt=now)
    for job in Job.objects.filter(waits).order_by("pk")[:20]:
        taken = Job.objects.filter(waits, pk=job.pk).update(
            state=JobState.RUNNING, worker=worker, lease_until=now + Job.LEASE
        )
        if taken:
            return job  # as it was: `running` tells that another worker had it before
    return None


@database.retried
def renew(worker: str, jobs: list[int]) -> None:
    """This worker is alive, and still has these."""
    Job.objects.filter(pk__in=jobs, worker=worker, state=JobState.RUNNING).update(
        lease_until=database.now() + Job.LEASE
    )


@database.retried
def set_run(job: Job, run: int) -> None:
    job.run = run
    Job.objects.filter(pk=job.pk).update(run=run)


@database.retried
def heard(job: Job, kind: str, outcome: str) -> None:
    """What the agent got for a step, or for the last text that was typed."""
    job.outcomes[kind] = outcome
    Job.objects.filter(pk=job.pk).update(outcomes=job.outcomes)


@database.retried
def over(job: Job, note: str) -> None:
    """Nobody takes it again."""
    Job.objects.filter(pk=job.pk).update(state=JobState.OVER, lease_until=None, note=note)
