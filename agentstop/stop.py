"""Stop: one durable commit after which nothing of the task passes the gate, and an account of all that had left."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack, overload

from django.db import models
from django.db.models import Max, QuerySet

from agentstop import (
    bodies,
    closing,
    database,
    descendants,
    family,
    holding,
    holds,
    per_task,
    permissions,
    signals,
    telemetry,
    telling,
    wake,
)
from agentstop.descendants import GoesOn
from agentstop.exceptions import RunNotFound, TaskNotFound
from agentstop.models import Attempt, Decision, Operation, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.models.task import id_of
from agentstop.per_task import Answers
from agentstop.sending import in_domain
from agentstop.states import OperationState, RunState, TaskState, Verb

logger = logging.getLogger(__name__)

NAMED = 100
LONG = 300  # bits of the longest number that a message names
TIMES = ("pressed_at", "last_dispatch_at")
CODE = "code"  # who decided, where neither a person nor a policy is named
HOLDING = ("", "finished")  # what is typed after a stop is the next run's input, and a repeated press does not hold it
UNSENT = (OperationState.PREPARED, OperationState.NOT_SENT)


@dataclass(frozen=True, slots=True)
class StopReport:
    """What this press did. `stopped` is false where there was nothing to stop: `why` says so in a word.

    `why`: "" (stopped by this press), "already_stopped", "finished", "newer_run" (the press named an older run).
    """

    task: int
    stopped: bool
    why: str
    decision: int
    at: datetime
    open: tuple[int, ...]  # its operations that have left and may still have their effect
    never_sent: tuple[int, ...]  # operations that were listed and will not be sent
    held: tuple[int, ...] = ()  # inputs of the task that waited, and are sent only if a person releases them
    descendants: int = 0  # tasks that worked for it alone, and were stopped with it: those with this stop_decision
    goes_on: tuple[GoesOn, ...] = ()  # the first hundred that go on, each with the reason
    open_below: tuple[int, ...] = ()  # as `open`, of those that worked for it alone and are over


class How(TypedDict, total=False):
    """The keyword arguments of `stop`."""

    by: Any
    reason: str
    run: int | None
    policy: str
    cancel: bool


@overload
def stop(task: Task | int, **how: Unpack[How]) -> StopReport: ...  # type: ignore[overload-overlap]


@overload
def stop(task: models.Model, **how: Unpack[How]) -> Answers[StopReport]: ...


def stop(
    task: Task | models.Model | int,
    *,
    by: Any = None,
    reason: str = "",
    run: int | None = None,
    policy: str = "",
    cancel: bool = True,
) -> StopReport | Answers[StopReport]:
    """Stop the task for good; the answer is returned when the stop is committed.

    One that has finished or failed stays so; from then on no code begins it again, as with one that was stopped.

    `task` may be an object of the host's: then every task about it that the person may see is stopped, each in a commit
    of its own, and the answer has a report for each.

    What has left is cancelled where its provider can (`confirm.confirm` waits for that); with `cancel=False` it is only
    accounted for.

    `by`: the person, checked for `stop_task`; `policy` names what decided where no person did. `run`: the number that
    the person saw; a press that names an older run than the last one stops nothing (0: none had begun, so it means the
    first). Raises TaskNotFound, Denied, or RunNotFound where the task has had no such run;
    ValueError where `policy` is agentstop's own "family".
    """
    closing.require_hosts(policy)
    if not isinstance(task, Task | int):
        return _stop_about(task, by, reason, run, policy, cancel)
    task_id = id_of(task)
    found = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if found is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was stopped.")
    reason = bodies.reason(reason)
    if by is not None:
        permissions.require(by, "stop_task", found, Decided.STOP, reason=reason)
    press = Press(by, reason, run, policy if by is not None or policy else CODE, cancel, database.now())
    report = _commit(task_id, press)
    logger.info("stop of task %s: %s", task_id, report.why or "stopped", extra={"action": "stop", "task": task_id})
    return report


def _stop_about(
    subject: models.Model, by: Any, reason: str, run: int | None, policy: str, cancel: bool
) -> Answers[StopReport]:
    if run is not None:
        raise ValueError("run names a run of one task: pass that task, or use bulk.stop_all(seen={task: run}).")
    return per_task.answered(
        per_task.about(subject, by, "stopped"),
        by,
        "stop_task",
        lambda task: stop(task, by=by, reason=reason, policy=policy, cancel=cancel),
    )


@overload
async def astop(task: Task | int, **how: Unpack[How]) -> StopReport: ...  # type: ignore[overload-overlap]


@overload
async def astop(task: models.Model, **how: Unpack[How]) -> Answers[StopReport]: ...


async def astop(task: Task | models.Model | int, **how: Unpack[How]) -> StopReport | Answers[StopReport]:
    """As `stop`."""
    return await in_domain(partial(stop, task, **how))


@dataclass(frozen=True, slots=True)
class Press:
    """Who asked for the stop, why, and what they saw; `at` is the database's time before any lock was waited for."""

    by: Any
    reason: str
    run: int | None
    policy: str
    cancel: bool
    at: datetime


@database.retried
def _commit(task_id: int, press: Press) -> StopReport:
    with database.durable():
        task = family.locked_task(task_id)
        if task is None:
            raise TaskNotFound(f"Task {task_id} was deleted meanwhile. Nothing was stopped.")
        _require_run(task, press.run)
        now = database.now()
        why = _why_not(task, press.run)
        decision = Decision.objects.using(database.alias()).create(
            task=task,
            run=press.run if press.run is not None else task.live_run,
            verb=Decided.STOP,
            effect=Effect.NOTED if why else Effect.APPLIED,
            by=press.by,
            policy=press.policy,
            reason=press.reason,
            detail={"why": why} if why else _times(task, press.at),
            at=now,
        )
        ended = [] if why else [task_id]
        if ended:
            _close(task, decision, now)
        elif why == closing.FINISHED and task.late_stop_id is None:
            task.late_stop = decision
            task.save(using=database.alias(), update_fields=["late_stop"])
        held = holding.hold({task_id: decision}, now) if why in HOLDING else []
        closed: list[int] = []
        if why != "newer_run":
            closed = closing.close_children(task, task.last_run, decision, now, cancel=press.cancel)
            if press.cancel:
                own = Operation.objects.filter(closing.MAY_GO_ON, task=task)
                closing.cancel_open_operations(own, decision, now)
                closing.cancel_below(task, decision, now)
        telling.of_tasks(signals.tasks_stopped, (*ended, *closed), decision)
        going_on = [pk for pk in descendants.alive_below([task_id]) if pk != task_id]
        changed = holds.apply(going_on, decision, now) if going_on else []
        report = _report(task, decision, why, closed, held, descendants.going_on(going_on[:NAMED]))
        wake.notify_on_commit([task_id, *closed, *changed])
    wake.announce(task_id, *closed, *changed, over=True)
    _measure(decision)
    return report


def _measure(decision: Decision) -> None:
    """How long after the press the last operation left, where this press has stopped the task and any had left."""
    times = {name: datetime.fromisoformat(decision.detail[name]) for name in TIMES if name in decision.detail}
    if len(times) == len(TIMES):
        telemetry.pressed((times["last_dispatch_at"] - times["pressed_at"]).total_seconds())


def _times(task: Task, pressed_at: datetime) -> dict[str, str]:
    """The press and the last dispatch, by the database's clock: how fast the stop took hold, for people to read."""
    passes = Attempt.objects.using(database.alias()).filter(operation__task=task, verb=Verb.SUBMIT, run__isnull=False)
    last = passes.aggregate(last=Max("passed_at"))["last"]
    found = {"pressed_at": pressed_at.isoformat()}
    return found if last is None else {**found, "last_dispatch_at": last.isoformat()}


def _require_run(task: Task, run: Any) -> None:
    """What an altered form or a careless caller names is no run: a decision about it would be about nothing."""
    if run is None:
        return
    number = isinstance(run, int) and not isinstance(run, bool)
    if number and 0 <= run <= max(task.last_run, 1):
        return
    # Python refuses to write out a number of many thousand digits
    named = f"of {run.bit_length()} bits" if number and run.bit_length() > LONG else reprlib.repr(run)
    raise RunNotFound(f"There is no run {named} of task {task.pk}. Nothing was stopped.")


def _why_not(task: Task, run: int | None) -> str:
    if run is not None and max(run, 1) < task.last_run:
        return "newer_run"
    return {TaskState.STOPPED: "already_stopped", TaskState.FINISHED: closing.FINISHED}.get(TaskState(task.state), "")


def _close(task: Task, decision: Decision, now: datetime) -> None:
    using = database.alias()
    Run.objects.using(using).filter(task=task, state=RunState.LIVE).update(state=RunState.STOPPED, ended_at=now)
    task.state, task.state_since, task.live_run = TaskState.STOPPED, now, None
    task.stopped_at, task.stopped_by, task.stop_reason = now, decision.by, decision.reason
    task.stop_decision = decision
    task.save(
        using=using,
        update_fields=[
            "state",
            "state_since",
            "live_run",
            "stopped_at",
            "stopped_by",
            "stop_reason",
            "stop_decision",
        ],
    )


def _report(
    task: Task, decision: Decision, why: str, closed: Sequence[int], held: Sequence[int], goes_on: tuple[GoesOn, ...]
) -> StopReport:
    rows = Operation.objects.using(database.alias()).filter(task=task)
    return StopReport(
        task=task.pk,
        stopped=not why,
        why=why,
        decision=decision.pk,
        at=decision.at,
        open=_ids(rows.filter(closing.MAY_GO_ON)),
        never_sent=_ids(rows.filter(state__in=UNSENT)),
        descendants=len(closed),
        held=tuple(held),
        goes_on=goes_on,
        open_below=tuple(closing.open_below(task)),
    )


def _ids(rows: QuerySet[Operation]) -> tuple[int, ...]:
    return tuple(rows.order_by("pk").values_list("pk", flat=True))
