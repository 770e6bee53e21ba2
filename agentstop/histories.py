"""The fold of a task: what its decisions, in order, say about its state and its runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentstop.states import TaskState


@dataclass(frozen=True, slots=True)
class DecisionFact:
    """One decision that was applied to a task: its verb, and the run that it began or met."""

    verb: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class FoldedTask:
    """What the decisions say."""

    state: TaskState = TaskState.ACTIVE
    live_run: int | None = None
    last_run: int = 0


def fold_task(decisions: Iterable[DecisionFact]) -> FoldedTask:
    """The task after these decisions, which were made one after the other under its lock."""
    folded = FoldedTask()
    for decision in decisions:
        folded = _after(folded, decision)
    return folded


def _after(task: FoldedTask, decision: DecisionFact) -> FoldedTask:
    if decision.verb == "start":
        number = decision.run or task.last_run + 1
        return FoldedTask(TaskState.ACTIVE, number, number)
    if decision.verb == "stop":
        return FoldedTask(TaskState.STOPPED, None, task.last_run)
    if decision.verb in {"finish", "fail"}:
        return FoldedTask(TaskState.FINISHED, None, task.last_run)
    if decision.verb == "pause":
        return FoldedTask(TaskState.PAUSED, task.live_run, task.last_run)
    if decision.verb == "resume":
        return FoldedTask(TaskState.ACTIVE, task.live_run, task.last_run)
    return task
