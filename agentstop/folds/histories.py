"""The fold of a task: what its decisions, in order, say about its state and its runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, islice

from agentstop.states import RunState, TaskState


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
    return reduce(_after, decisions, FoldedTask())


def fold_each(decisions: Iterable[DecisionFact]) -> Iterator[FoldedTask]:
    """The task after each of them."""
    return islice(accumulate(decisions, _after, initial=FoldedTask()), 1, None)


def _after(task: FoldedTask, decision: DecisionFact) -> FoldedTask:
    if decision.verb == "start":
        number = decision.run or task.last_run + 1
        return FoldedTask(TaskState.ACTIVE, number, number)
    if decision.verb == "restore":
        return FoldedTask(task.state, task.live_run, decision.run or task.last_run, task.held)
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


def fold_runs(decisions: Iterable[DecisionFact]) -> dict[int, RunState]:
    """What became of each run, by its number."""
    runs: dict[int, RunState] = {}
    live: int | None = None
    for decision in decisions:
        ending = ENDINGS.get(decision.verb)
        if ending is None:
            continue
        if live is not None:
            runs[live] = ending
        live = None
        if decision.verb == "start" and decision.run is not None:
            runs[decision.run] = RunState.LIVE
            live = decision.run
    return runs


# How a decision ends the run that it meets.
ENDINGS = {
    "start": RunState.SUPERSEDED,
    "stop": RunState.STOPPED,
    "finish": RunState.FINISHED,
    "fail": RunState.FAILED,
}
