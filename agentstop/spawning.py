"""Which runs a task serves: a child goes on while one of them is live, and is born stopped where none is."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from django.db.models import F, Q, QuerySet

from agentstop import bodies, closing, database, descendants, family, holds, signals, telling, wake
from agentstop.exceptions import ChildStopped, Denied, Refused, Stopped, TaskNotFound
from agentstop.models import Decision, Run, ServingLink, Task
from agentstop.models.facts import Decided, Effect
from agentstop.states import RunState, TaskState


class Served(Protocol):
    """A run, as its handle names it."""

    @property
    def task_id(self) -> int: ...

    @property
    def number(self) -> int: ...


def named_runs(serves: Any) -> tuple[Served, ...]:
    """What `serves` names, each run once; ValueError where it is not a list of runs."""
    if _is_run(serves):
        raise ValueError("serves takes a list of runs: pass serves=[run].")
    named: dict[tuple[int, int], Served] = {}
    for number, run in enumerate(bodies.many(serves, "serves", "runs")):
        if not _is_run(run):
            raise ValueError(f"serves names {reprlib.repr(run)} ({number}), which is no run. Pass what begin() gave.")
        named.setdefault((run.task_id, run.number), run)
    return tuple(named.values())


def _is_run(value: Any) -> bool:
    return all(type(getattr(value, part, None)) is int for part in ("task_id", "number"))


def named_children(keep: Any) -> tuple[int, ...]:
    """What `keep` names, each task once; ValueError where it is not a list of ids."""
    named = tuple(dict.fromkeys(bodies.many(keep, "keep", "task ids")))
    for child in named:
        if type(child) is not int:
            raise ValueError(f"keep names {reprlib.repr(child)}, which is no id of a task. Pass child.task_id.")
    return named


class ClosesARing(Refused):
    """A task would come to serve itself, through others: nobody could be the last to hold it."""

    reason = "closes_a_ring"


def locked_parents(serves: Iterable[Served]) -> dict[int, Task]:
    """The tasks whose runs are served, locked; TaskNotFound where one is missing."""
    wanted = {run.task_id for run in serves}
    parents = family.locked_tasks(wanted)
    for missing in wanted - parents.keys():
        raise TaskNotFound(f"There is no task {missing} to serve. Nothing was begun.")
    return parents


def require_same_owner(owner_id: int | None, parents: Mapping[int, Task]) -> None:
    """Nobody's work hangs on somebody else's task."""
    for parent in parents.values():
        if parent.owner_id != owner_id:
            raise Denied(f"Task {parent.pk} belongs to somebody else: a task serves runs of its own owner's tasks.")


def is_held(serves: Iterable[Served], parents: Mapping[int, Task]) -> bool:
    """Whether one of the served runs is live."""
    return any(parents[run.task_id].live_run == run.number for run in serves)


def live_parents(child: Task) -> list[Task]:
    """The tasks whose live runs it serves. The family's lock is held."""
    links = ServingLink.objects.using(database.alias()).filter(child=child, parent__live_run=F("parent_run"))
    return [link.parent for link in links.order_by("parent").select_related("parent")]


def is_on_its_own(child: Task, by: Any) -> bool:
    """Whether a run of it that begins now works for nobody: no run that it serves is live, and a person begins it.

    What such a run is followed by, with nobody's help, is on its own too.
    """
    if by is None and not child.on_its_own:
        return False
    return ServingLink.objects.using(database.alias()).filter(child=child).exists() and not live_parents(child)


def link(child: Task, serves: Iterable[Served], key: str = "") -> None:
    """Write down that the child serves these runs; what is there already stays. `key`: of a child that is new."""
    ServingLink.objects.using(database.alias()).bulk_create(
        [ServingLink(child=child, parent_id=run.task_id, parent_run=run.number, key=key) for run in serves],
        batch_size=database.BATCH,
        ignore_conflicts=not key,
    )


def check_key(key: str, serves: Sequence[Served]) -> None:
    """ValueError where a spawn key is not one line of text, or does not belong to one run."""
    if not key:
        return
    bodies.one_line(key, "key")
    if len(serves) != 1:
        raise ValueError(
            f"A spawn key names a child within one run, not {len(serves)}: pass serves=[run], and add other runs that "
            "it works for by serve(task, run)."
        )


def spawned(serves: Sequence[Served], key: str) -> int | None:
    """The task that this run has spawned under the key. The family's lock is held."""
    if not key:
        return None
    run = serves[0]
    links = ServingLink.objects.using(database.alias()).filter(parent=run.task_id, parent_run=run.number, key=key)
    return links.values_list("child", flat=True).first()


def require_as_before(child: Task, detached: bool) -> None:
    """What a key names is attached or detached for good: how it ends must not depend on who asked last."""
    if child.detached != detached:
        raise ValueError(
            f"Task {child.pk} was spawned under this key with detached={child.detached}. Pass the same, or another key."
        )


def has_finished(child: Task) -> bool:
    """Whether its last run has reached its end, and not failed."""
    runs = Run.objects.using(database.alias()).filter(task=child, number=child.last_run, state=RunState.FINISHED)
    return child.state == TaskState.FINISHED and runs.exists()


def pressed(child: Task) -> bool:
    """Whether it is stopped by a press of its own, by whomever, and not with those that it worked for."""
    return is_shut(child) and _own_stops(child).exists()


def is_shut(task: Task) -> bool:
    """Whether it was stopped since its last run began, at work or after it had finished: code begins it no more."""
    return task.state == TaskState.STOPPED or task.late_stop_id is not None


def stopped_alone(child: Task) -> ChildStopped:
    error = ChildStopped(
        f"Task {child.pk} was stopped by itself: it may not be spawned again under the same key in that run. Go on "
        "without it; a person may begin a new run of it."
    )
    error.child = child.pk
    return error


def over(child: Task, what: str) -> Stopped:
    """Why a child is not begun for runs that are all over."""
    return Stopped(f"Task {child.pk} was not {what} again: no run that it would serve is live any more.")


def bear_stopped(child: Task, parents: Iterable[Task], now: datetime) -> Stopped:
    """Stop a child that nobody live has asked for, as what stopped its parent would have."""
    causes = (parent.stop_decision_id for parent in parents if parent.stop_decision_id is not None)
    cause = next(causes, None)
    decision = Decision.objects.using(database.alias()).create(
        task=child, verb=Decided.STOP, policy=closing.FAMILY, cause_id=cause, reason="born stopped", at=now
    )
    child.state, child.state_since, child.stopped_at = TaskState.STOPPED, now, now
    child.stop_decision = decision
    child.save(using=database.alias())
    telling.of_tasks(signals.tasks_stopped, (child.pk,), decision)
    return Stopped(f"Task {child.pk} was born stopped: no run that it would serve is live any more. End here.")


def require_linkable(child: Task, serves: Sequence[Served], tasks: Mapping[int, Task]) -> None:
    """Raise where a task that is there may not serve these runs: TaskNotFound, Denied or ClosesARing."""
    for run in serves:
        parent = tasks.get(run.task_id)
        if parent is None:
            raise TaskNotFound(f"There is no task {run.task_id} to serve. Nothing was linked.")
        require_same_owner(child.owner_id, {parent.pk: parent})
        if family.would_close_a_ring(child.pk, parent.pk):
            raise ClosesARing(f"Task {child.pk} cannot serve task {parent.pk}, which works for it. Begin a new task.")


@database.retried
def serve(child_id: int, run: Served) -> None:
    """From now on the task works for this run too, and goes on as long as it is live.

    Raises Stopped where the run or the task is over, ClosesARing, Denied for somebody else's run, TaskNotFound.
    """
    named_runs([run])
    with database.durable():
        tasks = family.locked_tasks({child_id, run.task_id})
        for missing in {child_id, run.task_id} - tasks.keys():
            raise TaskNotFound(f"There is no task {missing}. Nothing was linked.")
        child, parent = tasks[child_id], tasks[run.task_id]
        require_linkable(child, [run], tasks)
        if parent.live_run != run.number or child.state == TaskState.STOPPED:
            over = f"run {run.number} of task {parent.pk}" if parent.live_run != run.number else f"task {child_id}"
            raise Stopped(f"Nothing was linked: {over} is over.")
        family.merged([child, parent])
        link(child, [run])
        Task.objects.using(database.alias()).filter(pk=child_id, on_its_own=True).update(on_its_own=False)
        changed = holds.apply(descendants.alive_below([child_id]), None, database.now())
        wake.notify_on_commit(changed)
    wake.announce(child_id, run.task_id)
    if changed:
        wake.announce(*changed, over=True)


def kept(named: Sequence[int], task: Task, last: int, number: int) -> None:
    """Children of the last run, however it has ended, that the new one adopts: they go on, and keep their keys."""
    if not named:
        return
    if not last:
        raise ValueError(f"keep names children of the last run, and task {task.pk} has none yet. Nothing was begun.")
    links = ServingLink.objects.using(database.alias()).filter(parent=task, parent_run=last)
    keys = dict(links.values_list("child", "key"))
    for stranger in (child for child in named if child not in keys):
        raise ValueError(
            f"keep names task {stranger}, which does not serve run {last} of task {task.pk}. Nothing was begun; "
            "a task at work elsewhere is linked by serve(task, run)."
        )
    _require_not_stopped(named)
    ServingLink.objects.using(database.alias()).bulk_create(
        [ServingLink(child_id=child, parent=task, parent_run=number, key=keys[child]) for child in sorted(named)],
        batch_size=database.BATCH,
        ignore_conflicts=True,
    )


def _require_not_stopped(named: Sequence[int]) -> None:
    """What is stopped cannot go on: it is begun again, by whoever may."""
    for child in database.by_id(Task, named).filter(state=TaskState.STOPPED).order_by("pk")[:1]:
        again = (
            "a person begins it again, with by=user" if pressed(child) else "begin it again: begin(task, serves=[run])"
        )
        raise ValueError(f"keep names task {child.pk}, which was stopped. Leave it out; {again}. Nothing was begun.")


def adoptable(child: Task, serves: Sequence[Served], parents: Mapping[int, Task]) -> bool:
    """Whether a live run may begin this stopped child again: it was stopped with others, not by a press of its own."""
    served_before = ServingLink.objects.using(database.alias()).filter(
        child=child, parent__in=[run.task_id for run in serves]
    )
    return is_held(serves, parents) and served_before.exists() and not _own_stops(child).exists()


def _own_stops(child: Task) -> QuerySet[Decision]:
    """The stops since its last run began that were decided about itself, also those that came after another."""
    decisions = Decision.objects.using(database.alias()).filter(task=child, operation__isnull=True)
    last_start = decisions.filter(verb=Decided.START, run=child.last_run, effect=Effect.APPLIED)
    since = last_start.order_by("-pk").values_list("pk", flat=True).first() or 0
    stops = decisions.filter(verb=Decided.STOP, pk__gt=since).exclude(policy=closing.FAMILY)
    noted = Q(effect=Effect.NOTED, detail__why__in=["already_stopped", closing.FINISHED])
    return stops.filter(Q(effect=Effect.APPLIED) | noted)
