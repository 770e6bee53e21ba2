"""What a run's process tells: that it is alive, that it has ended, that it goes no further."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agentstop import alive, bodies, database, descendants, family, holds, signals, telling, wake
from agentstop.exceptions import Paused, TaskNotFound
from agentstop.models import Decision, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.states import RunState, TaskState
from agentstop.stop_signal import reason_over


def check(task_id: int, number: int) -> None:
    """Raise the reason why the run may not go on; where it may, note the agent's sign of life."""
    if still_live(task_id, number).state == TaskState.PAUSED:
        raise Paused(f"Task {task_id} is paused. Ask again after it was resumed.")


def still_live(task_id: int, number: int) -> Task:
    """The task, and a sign of life of its agent noted; raises the reason where the run is over. A pause ends no run."""
    task = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if task is None:
        raise TaskNotFound(f"There is no task {task_id}.")
    alive.beat([(task_id, number)])
    over = reason_over(task.state, task.live_run, task.last_run, number)
    if over is not None:
        raise over(f"Run {number} of task {task_id} is over ({over.reason}): go no further.")
    return task


def end(task_id: int, number: int, state: RunState, error: str = "") -> bool:
    """The agent says that its run has ended; False where the run was over before, which is noted."""
    ended, changed = _end(task_id, number, state, bodies.reason(error))
    wake.announce(task_id, *changed, over=True)
    return ended


@database.retried
def _end(task_id: int, number: int, state: RunState, error: str) -> tuple[bool, list[int]]:
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
            telling.of_run(signals.run_ended, task_id, number, now, state=str(state), error=error)
        verb = Decided.FAIL if state is RunState.FAILED else Decided.FINISH
        decision = decide(task, verb, now, run=number, effect=Effect.APPLIED if live else Effect.NOTED, reason=error)
        changed = holds.apply(descendants.alive_below([task_id]), decision, now) if live else []
        wake.notify_on_commit([task_id, *changed])
    return live, changed


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


def decide(
    task: Task,
    verb: Decided,
    now: datetime,
    *,
    run: int | None = None,
    by: Any = None,
    effect: Effect = Effect.APPLIED,
    reason: str = "",
    detail: dict[str, Any] | None = None,
) -> Decision:
    """Record what the agent or a person has decided about a task, within the caller's transaction."""
    return Decision.objects.using(database.alias()).create(
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
