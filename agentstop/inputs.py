"""Inputs: what people type for a task while its agent is at work, or between two runs. A stop holds what waits.

Held input is never sent by itself: a person releases it, and the next run that asks takes it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentstop import bodies, database, permissions, wake
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.folds.input_states import RELEASABLE, WITHDRAWABLE, Became, FoldedInput, InputState, fold_input
from agentstop.holding import facts_of, locked_task, set_waits
from agentstop.models import Input as Row
from agentstop.models import InputEvent, Task
from agentstop.models.facts import Decided
from agentstop.models.task import id_of
from agentstop.sending import in_domain

__all__ = ["Input", "aadd", "add", "arelease", "awithdraw", "release", "withdraw"]

LONGEST = 100_000  # characters of one input


@dataclass(frozen=True, slots=True)
class Input:
    """What a person typed; the stored row is `models.Input`. `by` is a user name, empty where nobody is named."""

    id: int
    task_id: int
    text: str
    by: str
    at: datetime


def add(task: Task | int, text: str, *, by: Any = None) -> Input:
    """Keep a text for the task's agent. The live run takes it when it asks; where none is live, the next one does.

    Typed after a stop it is the next run's input, and not held. `by`: the person, checked for `start_run`. Raises
    TaskNotFound or Denied; ValueError where the text is empty or too long, and nothing is kept.
    """
    task_id = id_of(task)
    if by is not None:
        _require(by, _task(task_id), Decided.ADD, "type for it")
    row = _add(task_id, _checked(text), by)
    wake.announce(task_id)
    return as_value(row)


def release(input: Input | int, *, by: Any) -> bool:
    """Let the next run that asks have it; False where it was not held, nor of unknown outcome: nothing is changed.

    Only a person says so: `by`, checked for `start_run`. One whose run ended before it said that it was done may be
    acted on twice. Raises TaskNotFound or Denied; ValueError where `by` is None.
    """
    if by is None:
        raise ValueError("by names the person who says so: what a stop holds is released by no code alone.")
    return _decide(input, by, Decided.RELEASE, "release what was typed for it", Became.RELEASED, RELEASABLE)


def withdraw(input: Input | int, *, by: Any = None) -> bool:
    """No run gets it any more; False where the live run has it, or it was done with: nothing is changed.

    `by`: the person, checked for `start_run`. Raises TaskNotFound or Denied.
    """
    return _decide(input, by, Decided.WITHDRAW, "withdraw what was typed for it", Became.WITHDRAWN, WITHDRAWABLE)


async def aadd(task: Task | int, text: str, *, by: Any = None) -> Input:
    """As `add`."""
    return await in_domain(add, task, text, by=by)


async def arelease(input: Input | int, *, by: Any) -> bool:
    """As `release`."""
    return await in_domain(release, input, by=by)


async def awithdraw(input: Input | int, *, by: Any = None) -> bool:
    """As `withdraw`."""
    return await in_domain(withdraw, input, by=by)


def as_value(row: Row) -> Input:
    return Input(row.pk, row.task_id, row.body, row.by.get_username() if row.by is not None else "", row.at)


def _checked(text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError("The input is empty: type what the agent is to read. Nothing was kept.")
    if len(text) > LONGEST:
        raise ValueError(f"The input has {len(text)} characters, more than {LONGEST}. Nothing was kept: shorten it.")
    return bodies.safe(text)


def _task(task_id: int) -> Task:
    found = Task.objects.using(database.alias()).filter(pk=task_id).first()
    if found is None:
        raise TaskNotFound(f"There is no task {task_id}. Nothing was changed.")
    return found


def _require(user: Any, task: Task, verb: Decided, what: str) -> None:
    """One right for all of it: what is typed makes an agent act, as a new run does."""
    try:
        permissions.require(user, "start_run", task, verb)
    except Denied:
        raise Denied(f"You may see task {task.pk}, and not {what}. Ask its owner or an operator.") from None


@database.retried
def _add(task_id: int, text: str, by: Any) -> Row:
    with database.durable():
        locked_task(task_id)
        return Row.objects.using(database.alias()).create(task_id=task_id, body=text, by=by, at=database.now())


def _decide(
    input: Input | int, by: Any, verb: Decided, what: str, became: Became, possible: Collection[InputState]
) -> bool:
    pk = input if isinstance(input, int) else input.id
    row = Row.objects.using(database.alias()).select_related("task").filter(pk=pk).first()
    if row is None:
        raise TaskNotFound(f"There is no input {pk}. Nothing was changed.")
    if by is not None:
        _require(by, row.task, verb, what)
    done = _store(row, became, by, possible)
    wake.announce(row.task_id)
    return done


@database.retried
def _store(row: Row, became: Became, by: Any, possible: Collection[InputState]) -> bool:
    with database.durable():
        task = locked_task(row.task_id)
        if folded(row.pk, task.live_run).state not in possible:
            return False
        InputEvent.objects.using(database.alias()).create(input=row, became=became, by=by, at=database.now())
        set_waits([row], waits=became is Became.RELEASED)
    return True


def folded(input_id: int, live_run: int | None) -> FoldedInput:
    """What the facts of one input say, under its task's lock."""
    return fold_input(facts_of([input_id])[input_id], live_run)
