"""How runs begin, under the family's and the task's lock; at most one run of a task is live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import models

from agentstop import (
    bodies,
    closing,
    database,
    descendants,
    family,
    frozen,
    holds,
    permissions,
    signals,
    spawning,
    telling,
    wake,
)
from agentstop.exceptions import Denied, Paused, Refused, Stopped, Superseded, TaskNotFound
from agentstop.liveness import decide
from agentstop.models import Decision, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.models.task import id_of
from agentstop.spawning import Served
from agentstop.states import RunState, TaskState


@dataclass(frozen=True, slots=True)
class Begun:
    """What begin has done: the run, and the tasks that were stopped, or let go on, since the run before it is over."""

    task: int
    number: int
    changed: tuple[int, ...] = ()
    new: bool = True  # False: the run was there, and has finished
    parents: tuple[int, ...] = ()  # whose pages show that it has begun


def begin(
    task: Task | int | str,
    *,
    owner: Any,
    subject: models.Model | None,
    by: Any,
    serves: Sequence[Served] = (),
    detached: bool = False,
    keep: Sequence[int] = (),
    key: str = "",
    run: int | None = None,
) -> tuple[int, int]:
    """The task's id and the run's number: a new one, but for a spawn key whose child has finished."""
    serves, keep = spawning.named_runs(serves), spawning.named_children(keep)
    if isinstance(task, str):
        if keep:
            raise ValueError("keep names children of the run that is superseded: a new task has none.")
        if run is not None:
            raise ValueError("run names the last run that the person saw: a new task has none.")
        spawning.check_key(key, serves)
        title = bodies.one_line(task, "title")
        _require_new(title, owner, subject, by, serves)
        found = _begin_new(title, owner, subject, by, serves, detached, key)
    else:
        if owner is not None or subject is not None or detached or key:
            raise ValueError("owner, subject, detached and key belong to a new task: pass a title, or leave them out.")
        found = _begin_old(id_of(task), by, serves, keep, run)
    if isinstance(found, Refused):
        raise found
    return found


def _require_new(title: str, owner: Any, subject: models.Model | None, by: Any, serves: Sequence[Served]) -> None:
    """A person begins new work for whom they may begin runs: for the tasks that it serves, or for its owner."""
    if by is None:
        return
    _require_served(by, serves)
    if owner is None or serves:
        return
    new = Task(title=title, owner=owner, **_about(subject))
    if not permissions.may(by, "start_run", new):
        raise Denied(f"You may not begin a task for {owner}. Begin it for yourself, or ask an operator.")


def _require_served(by: Any, serves: Sequence[Served]) -> None:
    for parent in Task.objects.using(database.alias()).filter(pk__in={run.task_id for run in serves}).order_by("pk"):
        permissions.require(by, "start_run", parent, Decided.START)


def _begin_old(
    task_id: int, by: Any, serves: Sequence[Served], keep: Sequence[int], seen: int | None
) -> tuple[int, int] | Refused:
    if by is not None:
        task = Task.objects.using(database.alias()).filter(pk=task_id).first()
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}. No run was begun.")
        permissions.require(by, "start_run", task, Decided.START)
        _require_served(by, serves)
    return _begin_again(task_id, by, serves, keep, seen)


@database.retried
def create(title: str, *, owner: Any = None, subject: models.Model | None = None) -> Task:
    """A task that has no run yet: queued work, which can be stopped before it starts."""
    with database.durable():
        frozen.share_clock()
        task = _create(bodies.one_line(title, "title"), owner, subject, database.now(), family.found().pk)
    wake.announce(task.pk)
    return task


@database.retried
def _begin_new(
    title: str, owner: Any, subject: models.Model | None, by: Any, serves: Sequence[Served], detached: bool, key: str
) -> tuple[int, int] | Refused:
    with database.durable():
        frozen.share_clock()
        parents = spawning.locked_parents(serves)
        if parents and owner is None:
            owner = next(iter(parents.values())).owner
        spawning.require_same_owner(owner.pk if owner is not None else None, parents)
        child = spawning.spawned(serves, key)
        if child is not None:
            found = _spawn_again(child, by, serves, parents, detached)
        else:
            found = _bear(title, owner, subject, by, serves, parents, detached, key)
    return _told(found)


def _bear(
    title: str,
    owner: Any,
    subject: models.Model | None,
    by: Any,
    serves: Sequence[Served],
    parents: Mapping[int, Task],
    detached: bool,
    key: str,
) -> Begun | Refused:
    now = database.now()
    root = family.merged(list(parents.values())) if parents else family.found().pk
    task = _create(title, owner, subject, now, root, detached=detached)
    spawning.link(task, serves, key)
    if parents and not spawning.is_held(serves, parents):
        return spawning.bear_stopped(task, parents.values(), now)
    start = _open(task, by, now)
    if parents:
        holds.apply([task.pk], start, now, asked=[task.pk])
    return Begun(task.pk, task.last_run, parents=tuple(parents))


def _spawn_again(
    child_id: int, by: Any, serves: Sequence[Served], parents: Mapping[int, Task], detached: bool
) -> Begun | Refused:
    """The child that the key names: as it is where it has finished, in a new run where it has not."""
    child = family.locked_tasks([child_id])[child_id]
    spawning.require_as_before(child, detached)
    if not spawning.is_held(serves, parents):
        return _refused(child, spawning.over(child, "spawned"), database.now())
    if spawning.has_finished(child):
        return Begun(child.pk, child.last_run, new=False)
    if spawning.pressed(child):
        return _refused(child, spawning.stopped_alone(child), database.now())
    return _begin_locked(child, by, serves, {**parents, child_id: child}, ())


def _told(found: Begun | Refused) -> tuple[int, int] | Refused:
    """After the commit: whoever waits for these tasks hears of it."""
    if isinstance(found, Refused):
        return found
    if found.new:
        wake.announce(found.task, *found.changed, over=found.number > 1)
        if found.parents:
            wake.announce(*found.parents)
    return found.task, found.number


def _about(subject: models.Model | None) -> dict[str, Any]:
    """The columns that point at an object of the host's."""
    if subject is None:
        return {"subject_type": None, "subject_id": ""}
    return {"subject_type": ContentType.objects.get_for_model(subject), "subject_id": str(subject.pk)}


def _create(
    title: str, owner: Any, subject: models.Model | None, now: datetime, root: int, *, detached: bool = False
) -> Task:
    return Task.objects.using(database.alias()).create(
        title=title,
        owner=owner,
        **_about(subject),
        family_id=root,
        detached=detached,
        freeze_epoch=frozen.share_clock(),
        state_since=now,
        created_at=now,
    )


@database.retried
def _begin_again(
    task_id: int, by: Any, serves: Sequence[Served], keep: Sequence[int], seen: int | None
) -> tuple[int, int] | Refused:
    """A new run; the old one is superseded, and with it ends what works for it alone and is not kept."""
    with database.durable():
        frozen.share_clock()
        tasks = family.locked_tasks({task_id, *(run.task_id for run in serves)})
        task = tasks.get(task_id)
        if task is None:
            raise TaskNotFound(f"There is no task {task_id}. No run was begun.")
        newer = _newer(task, seen)
        found = _begin_locked(task, by, serves, tasks, keep) if newer is None else _refused(task, newer, database.now())
    return _told(found)


def _begin_locked(
    task: Task, by: Any, serves: Sequence[Served], tasks: Mapping[int, Task], keep: Sequence[int]
) -> Begun | Refused:
    spawning.require_linkable(task, serves, tasks)
    now = database.now()
    refusal = _may_begin(task, by, serves, tasks)
    if refusal is not None:
        return _refused(task, refusal, now)
    if serves:
        family.merged(list(tasks.values()))
        spawning.link(task, serves)
    superseded = task.live_run
    runs = Run.objects.using(database.alias()).filter(task=task, state=RunState.LIVE)
    runs.update(state=RunState.SUPERSEDED, ended_at=now)
    start = _open(task, by, now, superseded)
    changed = _leave_behind(task, superseded, start, keep, now)
    asked = [task.pk] if serves else []
    changed += holds.apply(descendants.alive_below([task.pk]), start, now, asked=asked)
    wake.notify_on_commit([task.pk, *changed])
    return Begun(task.pk, task.last_run, tuple(changed), parents=tuple({run.task_id for run in serves}))


def _refused(task: Task, refusal: Refused, now: datetime) -> Refused:
    decide(task, Decided.START, now, effect=Effect.DENIED, detail={"why": refusal.reason})
    return refusal


def _newer(task: Task, seen: int | None) -> Superseded | None:
    """Whoever asks for a new run has seen the last one: two presses begin one."""
    if seen is None or seen == task.last_run:
        return None
    return Superseded(f"Run {task.last_run} of task {task.pk} has begun since run {seen} was seen. No run was begun.")


def _may_begin(task: Task, by: Any, serves: Sequence[Served], parents: Mapping[int, Task]) -> Refused | None:
    """Why no run may be begun now, or None."""
    if task.state == TaskState.PAUSED:
        return Paused(f"Task {task.pk} is paused. Resume it before a new run is begun.")
    if by is not None:
        return None
    if spawning.is_shut(task) and not spawning.adoptable(task, serves, parents):
        when = "after it had ended" if task.state == TaskState.FINISHED else ""
        return Stopped(
            f"Task {task.pk} was stopped{when and ' ' + when}. Only a person may begin a new run: pass by=user."
        )
    if serves and not spawning.is_held(serves, parents):
        return spawning.over(task, "begun")
    return None


def _leave_behind(task: Task, superseded: int | None, start: Decision, keep: Sequence[int], now: datetime) -> list[int]:
    """Stop the children of the run that is over, but those that the new one keeps; who was stopped."""
    if superseded is None and not keep:
        return []
    spawning.kept(keep, task, task.last_run - 1, task.last_run)
    if superseded is None:  # what a run has left that has ended by itself, or was stopped, is not for this one to end
        return []
    closed = closing.close_children(task, task.last_run - 1, start, now)
    telling.of_tasks(signals.tasks_stopped, tuple(closed), start)
    return closed


def _open(task: Task, by: Any, now: datetime, superseded: int | None = None) -> Decision:
    """The next run becomes the live one, whatever the task was before; the last stop stays in the facts."""
    number = task.last_run + 1
    if task.state != TaskState.ACTIVE:
        task.state_since = now
    task.state, task.live_run, task.last_run = TaskState.ACTIVE, number, number
    task.stopped_at, task.stopped_by, task.stop_reason, task.stop_decision = None, None, "", None
    task.late_stop = None
    task.on_its_own = spawning.is_on_its_own(task, by)
    task.freeze_epoch = frozen.share_clock()
    task.save(using=database.alias())
    Run.objects.using(database.alias()).create(task=task, number=number, begun_by=by, began_at=now, seen_at=now)
    telling.of_run(signals.run_begun, task.pk, number, now, by=by, superseded=superseded)
    return decide(task, Decided.START, now, run=number, by=by)
