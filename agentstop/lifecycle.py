"""How runs begin and end, under the family's and the task's lock; at most one run of a task is live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import models

from agentstop import bodies, closing, database, family, permissions, spawning, wake
from agentstop.exceptions import Paused, Refused, Stopped, TaskNotFound
from agentstop.models import Decision, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.pause import hold_with
from agentstop.spawning import Served
from agentstop.states import RunState, TaskState
from agentstop.stop_signal import reason_over

SIGN_OF_LIFE = timedelta(seconds=5)  # a check is written down so often at the most


def begin(
    task: Task | int | str,
    *,
    owner: Any,
    subject: models.Model | None,
    by: Any,
    serves: Sequence[Served] = (),
    detached: bool = False,
    keep: Sequence[int] = (),
) -> tuple[int, int]:
    """The task's id and the new run's number."""
    if isinstance(task, str):
        if keep:
            raise ValueError("keep names children of the run that is superseded: a new task has none.")
        found = _begin_new(bodies.one_line(task, "title"), owner, subject, by, serves, detached)
    else:
        if owner is not None or subject is not None or detached:
            raise ValueError("owner, subject and detached belong to a new task: pass a title, or leave them out.")
        found = _begin_old(task if isinstance(task, int) else task.pk, by, serves, keep)
    if isinstance(found, Refused):
        raise found
    return found


def _begin_old(task_id: int, by: Any, serves: Sequence[Served], keep: Sequence[int]) -> tuple[int, int] | Refused:
    if by is not None:
        task = Task.objects.using(database.alias()).filter(pk=task_id).first()
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}. No run was begun.")
        permissions.require(by, "start_run", task, Decided.START)
    return _begin_again(task_id, by, serves, keep)


@database.retried
def create(title: str, *, owner: Any = None, subject: models.Model | None = None) -> Task:
    """A task that has no run yet: queued work, which can be stopped before it starts."""
    with database.durable():
        task = _create(bodies.one_line(title, "title"), owner, subject, database.now(), family.found().pk)
    wake.announce(task.pk)
    return task


@database.retried
def _begin_new(
    title: str, owner: Any, subject: models.Model | None, by: Any, serves: Sequence[Served], detached: bool
) -> tuple[int, int] | Refused:
    with database.durable():
        parents = spawning.locked_parents(serves)
        if parents and owner is None:
            owner = next(iter(parents.values())).owner
        spawning.require_same_owner(owner.pk if owner is not None else None, parents)
        now = database.now()
        root = family.merged(list(parents.values())) if parents else family.found().pk
        task = _create(title, owner, subject, now, root, detached=detached)
        spawning.link(task, serves)
        if parents and not spawning.is_held(serves, parents):
            refusal = spawning.bear_stopped(task, parents.values(), now)
            return refusal
        number = _open(task, by, now)
        live = [parents[run.task_id] for run in serves if parents[run.task_id].live_run == run.number]
        if live and all(parent.state == TaskState.PAUSED for parent in live):
            hold_with(task, live, now)
    wake.announce(task.pk)
    return task.pk, number


def _create(
    title: str, owner: Any, subject: models.Model | None, now: datetime, root: int, *, detached: bool = False
) -> Task:
    return Task.objects.using(database.alias()).create(
        title=title,
        owner=owner,
        subject_type=ContentType.objects.get_for_model(subject) if subject is not None else None,
        subject_id=str(subject.pk) if subject is not None else "",
        family_id=root,
        detached=detached,
        state_since=now,
        created_at=now,
    )


@database.retried
def _begin_again(task_id: int, by: Any, serves: Sequence[Served], keep: Sequence[int]) -> tuple[int, int] | Refused:
    """A new run; the old one is superseded, and with it ends what works for it alone and is not kept."""
    with database.durable():
        tasks = family.locked_tasks({task_id, *(run.task_id for run in serves)})
        task = tasks.get(task_id)
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}. No run was begun.")
        now = database.now()
        refusal = _may_begin(task, by, serves, tasks)
        if refusal is not None:
            _decide(task, Decided.START, now, effect=Effect.DENIED, detail={"why": refusal.reason})
            return refusal
        if serves:
            family.merged(list(tasks.values()))
            spawning.link(task, serves)
        superseded = task.live_run
        runs = Run.objects.using(database.alias()).filter(task=task, state=RunState.LIVE)
        runs.update(state=RunState.SUPERSEDED, ended_at=now)
        number = _open(task, by, now)
        closed = _leave_behind(task, superseded, number, keep, now)
        wake.notify_on_commit([task_id, *closed])
    wake.announce(task_id, *closed, over=True)
    return task_id, number


def _may_begin(task: Task, by: Any, serves: Sequence[Served], parents: Mapping[int, Task]) -> Refused | None:
    """Why no run may be begun now, or None."""
    if task.state == TaskState.PAUSED:
        return Paused(f"Task {task.pk} is paused. Resume it before a new run is begun.")
    if by is not None:
        return None
    if task.state == TaskState.STOPPED and not spawning.adoptable(task, serves, parents):
        return Stopped(f"Task {task.pk} was stopped. Only a person may begin a new run: pass by=user.")
    if serves and not spawning.is_held(serves, parents):
        return Stopped(f"Task {task.pk} was not begun again: no run that it would serve is live any more.")
    return None


def _leave_behind(task: Task, superseded: int | None, number: int, keep: Sequence[int], now: datetime) -> list[int]:
    """Stop the children of the run that is over, but those that the new one keeps; answers who was stopped."""
    if superseded is None and not keep:
        return []
    spawning.kept(keep, task, superseded, number)
    decision = Decision.objects.using(database.alias()).filter(task=task, verb=Decided.START, run=number).latest("pk")
    return closing.close_children(task, number - 1, decision, now)


def _open(task: Task, by: Any, now: datetime) -> int:
    """The next run becomes the live one, whatever the task was before; the last stop stays in the facts."""
    number = task.last_run + 1
    if task.state != TaskState.ACTIVE:
        task.state_since = now
    task.state, task.live_run, task.last_run = TaskState.ACTIVE, number, number
    task.stopped_at, task.stopped_by, task.stop_reason, task.stop_decision = None, None, "", None
    task.save(using=database.alias())
    Run.objects.using(database.alias()).create(task=task, number=number, begun_by=by, began_at=now, seen_at=now)
    _decide(task, Decided.START, now, run=number, by=by)
    return number


def check(task_id: int, number: int) -> None:
    """Raise the reason why the run may not go on; where it may, note the agent's sign of life."""
    task = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}.")
    now = database.now()
    runs = Run.objects.using(database.alias()).filter(task_id=task_id, number=number)
    runs.filter(seen_at__lt=now - SIGN_OF_LIFE).update(seen_at=now)
    over = reason_over(task.state, task.live_run, task.last_run, number)
    if over is not None:
        raise over(f"Run {number} of task {task_id} is over ({over.reason}): go no further.")
    if task.state == TaskState.PAUSED:
        raise Paused(f"Task {task_id} is paused. Ask again after it was resumed.")


def end(task_id: int, number: int, state: RunState, error: str = "") -> bool:
    """The agent says that its run has ended; False where the run was over before, which is noted."""
    ended = _end(task_id, number, state, bodies.reason(error))
    wake.announce(task_id, over=True)
    return ended


@database.retried
def _end(task_id: int, number: int, state: RunState, error: str) -> bool:
    with database.durable():
        task = family.locked_task(task_id)
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}. Nothing was ended.")
        now = database.now()
        live = task.live_run == number
        _halt(task, number, now, error)
        if live:
            Run.objects.using(database.alias()).filter(task=task, number=number).update(state=state, ended_at=now)
            task.state, task.state_since, task.live_run = TaskState.FINISHED, now, None
            task.save(using=database.alias(), update_fields=["state", "state_since", "live_run"])
        verb = Decided.FAIL if state is RunState.FAILED else Decided.FINISH
        _decide(task, verb, now, run=number, effect=Effect.APPLIED if live else Effect.NOTED, reason=error)
        wake.notify_on_commit([task_id])
    return live


@database.retried
def halted(task_id: int, number: int) -> None:
    """The agent's process says that it has taken notice of the end of its run."""
    with database.durable():
        task = family.locked_task(task_id)
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}.")
        _halt(task, number, database.now(), "")
    wake.announce(task_id)


def _halt(task: Task, number: int, now: datetime, error: str) -> None:
    """The first word counts: a process that ends twice has ended once."""
    runs = Run.objects.using(database.alias()).filter(task=task, number=number)
    runs.filter(halted_at__isnull=True).update(halted_at=now, seen_at=now)
    if error:
        runs.filter(error="").update(error=error)


def _decide(
    task: Task,
    verb: Decided,
    now: datetime,
    *,
    run: int | None = None,
    by: Any = None,
    effect: Effect = Effect.APPLIED,
    reason: str = "",
    detail: dict[str, Any] | None = None,
) -> None:
    Decision.objects.using(database.alias()).create(
        task=task,
        run=run if run is not None else task.live_run,
        verb=verb,
        effect=effect,
        by=by,
        policy="" if by is not None else "agent",
        reason=reason,
        detail=detail or {},
        at=now,
    )
