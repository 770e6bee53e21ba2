"""Pause: dispatch is held and the run stays live; what works for it alone is held too, until every cause is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack, overload

from django.db import models
from django.db.models import F, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agentstop import bodies, database, descendants, family, per_task, permissions, signals, storing, telling, wake
from agentstop.closing import FAMILY, require_hosts
from agentstop.exceptions import TaskNotFound
from agentstop.models import Decision, Task
from agentstop.models.facts import Decided, Effect
from agentstop.per_task import Answers
from agentstop.sending import in_domain
from agentstop.states import TaskState


class How(TypedDict, total=False):
    """The keyword arguments of `pause` and `resume`."""

    by: Any
    reason: str
    policy: str


@overload
def pause(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
def pause(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
def pause(
    task: Task | models.Model | int, *, by: Any = None, reason: str = "", policy: str = ""
) -> bool | Answers[bool]:
    """Hold the task's dispatch; False where it is paused by a cause of its own, or over: that is noted.

    What has left goes on. Callers wait; tasks that work for it alone are held too. For an object of the host's: every
    task about it that the person may see, with an answer for each. Raises TaskNotFound or Denied;
    ValueError where `policy` is agentstop's own "family".
    """
    require_hosts(policy)
    if not isinstance(task, Task | int):
        return _about(task, Decided.PAUSE, _pause, by, reason, policy)
    return _pause(_checked(task, by, Decided.PAUSE, reason), by, bodies.reason(reason), policy)


@overload
def resume(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
def resume(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
def resume(
    task: Task | models.Model | int, *, by: Any = None, reason: str = "", policy: str = ""
) -> bool | Answers[bool]:
    """Let the same run go on; False where no cause of its own holds it. What its parents hold stays held.

    For an object of the host's as `pause`; so are the errors.
    """
    require_hosts(policy)
    if not isinstance(task, Task | int):
        return _about(task, Decided.RESUME, _resume, by, reason, policy)
    return _resume(_checked(task, by, Decided.RESUME, reason), by, bodies.reason(reason), policy)


@overload
async def apause(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
async def apause(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
async def apause(task: Task | models.Model | int, **how: Unpack[How]) -> bool | Answers[bool]:
    """As `pause`."""
    return await in_domain(partial(pause, task, **how))


@overload
async def aresume(task: Task | int, **how: Unpack[How]) -> bool: ...  # type: ignore[overload-overlap]
@overload
async def aresume(task: models.Model, **how: Unpack[How]) -> Answers[bool]: ...
async def aresume(task: Task | models.Model | int, **how: Unpack[How]) -> bool | Answers[bool]:
    """As `resume`."""
    return await in_domain(partial(resume, task, **how))


def _about(
    subject: models.Model, verb: Decided, do: Callable[[int, Any, str, str], bool], by: Any, reason: str, policy: str
) -> Answers[bool]:
    return per_task.answered(
        per_task.about(subject, by, f"{verb}d"),
        by,
        "pause_task",
        lambda task: do(_checked(task, by, verb, reason), by, bodies.reason(reason), policy),
    )


def open_causes(task_id: int) -> QuerySet[Decision]:
    """The decisions that hold this task now: its own, and those of tasks that it works for."""
    return _open_causes([task_id])


def _open_causes(task_ids: Sequence[int] | QuerySet[Task, Any]) -> QuerySet[Decision]:
    decisions = Decision.objects.using(database.alias()).filter(operation__isnull=True)
    begun = _last(decisions.filter(task=OuterRef("task"), verb=Decided.START, effect=Effect.APPLIED), "task")
    lifted = _last(decisions.filter(cause=OuterRef("pk"), verb=Decided.RESUME), "cause")
    pauses = decisions.filter(task__in=task_ids, verb=Decided.PAUSE, effect=Effect.APPLIED, pk__gt=Coalesce(begun, 0))
    return pauses.alias(lifted=lifted).filter(lifted__isnull=True)


def _last(decisions: QuerySet[Decision], of: str) -> Subquery:
    """The newest of the decisions about each; as a sum, or PostgreSQL looks through the whole table for each."""
    return Subquery(decisions.order_by().values(of).annotate(last=Max(F("pk") + 0)).values("last"))


def _checked(task: Task | int, by: Any, verb: Decided, reason: str) -> int:
    task_id = task if isinstance(task, int) else task.pk
    found = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if found is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    if by is not None:
        permissions.require(by, "pause_task", found, verb, reason=bodies.reason(reason))
    return task_id


@database.retried
def _pause(task_id: int, by: Any, reason: str, policy: str) -> bool:
    with database.durable():
        task, now = _locked(task_id), database.now()
        own = open_causes(task_id).exclude(policy=FAMILY).exists()
        alive = task.state in descendants.ALIVE
        effect = Effect.APPLIED if alive and not own else Effect.NOTED
        cause = _decided(task, Decided.PAUSE, now, by=by, policy=policy, reason=reason, effect=effect)
        held = [task_id] if effect == Effect.APPLIED else []
        if held and task.live_run is not None:
            held += _hold_children(task, task.live_run, cause, now)
        telling.of_tasks(signals.tasks_paused, _active(held), cause)
        _set_state(held, TaskState.PAUSED, now)
        wake.notify_on_commit(held)
    wake.announce(*held, over=True)
    return bool(held)


def hold_with(child: Task, parents: Iterable[Task], now: datetime) -> None:
    """A child that is born while all that it would work for is paused is held with them."""
    causes = [cause for parent in parents for cause in open_causes(parent.pk)]
    Decision.objects.using(database.alias()).bulk_create(
        Decision(task=child, run=child.live_run, verb=Decided.PAUSE, policy=FAMILY, cause=_root(cause), at=now)
        for cause in causes
    )
    if causes:
        telling.of_tasks(signals.tasks_paused, (child.pk,), _root(causes[0]))
        _set_state([child.pk], TaskState.PAUSED, now)


def let_go(ended: Sequence[int], decision: Decision, now: datetime) -> list[int]:
    """What tasks that are over have held goes on, unless something else holds it; the ids of those that do.

    Within the transaction, and by the decision, that has ended them, under the family's lock. A pause is of a run: it
    is over with it, or nobody could lift it any more.
    """
    database.go_by_index()
    causes = _open_causes(descendants.those(ended).values("pk")).exclude(policy=FAMILY)
    held = Decision.objects.using(database.alias()).filter(verb=Decided.PAUSE, task__state=TaskState.PAUSED)
    through = held.filter(cause__in=list(causes.values_list("pk", flat=True)))
    tasks = sorted(set(through.values_list("task", flat=True)))
    if not tasks:
        return []
    return _hand_down(through, tasks, decision, now)


def _root(cause: Decision) -> Decision:
    return cause.cause if cause.policy == FAMILY and cause.cause is not None else cause


def _hold_children(task: Task, run: int, cause: Decision, now: datetime) -> list[int]:
    """Each by a decision of its own; their ids."""
    children = list(descendants.locked_below(task, run).alive)
    held = Decision(verb=Decided.PAUSE, by=cause.by, policy=FAMILY, reason=cause.reason, cause=cause, at=now)
    if children:
        storing.add_for_each(descendants.those(children), held, {"task_id": "id", "run": "live_run"})
    return children


def _active(tasks: Sequence[int]) -> tuple[int, ...]:
    """Those that are not held yet."""
    active = set(descendants.those(tasks).filter(state=TaskState.ACTIVE).values_list("pk", flat=True))
    return tuple(pk for pk in tasks if pk in active)


@database.retried
def _resume(task_id: int, by: Any, reason: str, policy: str) -> bool:
    with database.durable():
        task, now = _locked(task_id), database.now()
        own = list(open_causes(task_id).exclude(policy=FAMILY)) if task.state == TaskState.PAUSED else []
        if not own:
            _decided(task, Decided.RESUME, now, by=by, policy=policy, reason=reason, effect=Effect.NOTED)
        freed = [one for cause in own for one in _lift(task, cause, now, by, policy, reason)]
        wake.notify_on_commit(freed)
    wake.announce(*freed, over=True)
    return bool(own)


def _lift(task: Task, cause: Decision, now: datetime, by: Any, policy: str, reason: str) -> list[int]:
    """Take a cause away from its task and from all that it held; the ids of those that go on, held by nothing else."""
    through = Decision.objects.using(database.alias()).filter(cause=cause, verb=Decided.PAUSE)
    lifted = _decided(task, Decided.RESUME, now, by=by, policy=policy, reason=reason, cause=cause)
    return _hand_down(through, [task.pk, *through.order_by("pk").values_list("task", flat=True)], lifted, now)


def _hand_down(through: QuerySet[Decision], tasks: Sequence[int], told: Decision, now: datetime) -> list[int]:
    """Lift each of the decisions by which a cause has held others; the ids of the tasks that nothing else holds."""
    each = Decision(verb=Decided.RESUME, by=told.by, policy=FAMILY, reason=told.reason, at=now)
    found = through.annotate(live_run=F("task__live_run"))
    storing.add_for_each(found, each, {"task_id": "task_id", "run": "live_run", "cause_id": "id"})
    freed = _free(tasks)
    _set_state(freed, TaskState.ACTIVE, now)
    telling.of_tasks(signals.tasks_resumed, tuple(freed), told)
    return freed


def _free(tasks: Sequence[int]) -> list[int]:
    """Those of the tasks that are paused, and that nothing holds any more."""
    database.go_by_index()
    held = {pk for batch in database.batches(tasks) for pk in _open_causes(batch).values_list("task", flat=True)}
    paused = set(descendants.those(tasks).filter(state=TaskState.PAUSED).values_list("pk", flat=True))
    return [pk for pk in tasks if pk in paused and pk not in held]


def _locked(task_id: int) -> Task:
    task = family.locked_task(task_id)
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    return task


def _decided(task: Task, verb: Decided, now: datetime, **columns: Any) -> Decision:
    return Decision.objects.using(database.alias()).create(task=task, run=task.live_run, verb=verb, at=now, **columns)


def _set_state(tasks: Sequence[int], state: TaskState, now: datetime) -> None:
    rows = descendants.those(tasks).filter(state__in=descendants.ALIVE)
    rows.exclude(state=state).update(state=state, state_since=now)
