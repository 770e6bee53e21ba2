"""The fold of a task: what its decisions, in order, say about its state and its runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentstop.states import TaskState


@dataclass(frozen=True, slots=True)
class DecisionFact:
    """One decision that was applied to a task: its verb, the run that it began or met, and what it answers."""

    verb: str
    run: int | None = None
    id: int = 0
    cause: int | None = None  # of a resume: the pause that it lifts


@dataclass(frozen=True, slots=True)
class FoldedTask:
    """What the decisions say. `held` are the pauses that nobody has lifted."""

    state: TaskState = TaskState.ACTIVE
    live_run: int | None = None
    last_run: int = 0
    held: frozenset[int] = frozenset()


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
        return _holding(task, task.held | {decision.id})
    if decision.verb == "resume":
        return _holding(task, task.held - {decision.cause or 0})
    return task


def _holding(task: FoldedTask, held: frozenset[int]) -> FoldedTask:
    if task.state not in {TaskState.ACTIVE, TaskState.PAUSED}:
        return task
    return FoldedTask(TaskState.PAUSED if held else TaskState.ACTIVE, task.live_run, task.last_run, held)
