"""What people type for an agent: kept, released, withdrawn; and taken by its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from agentstop import database, inputs, permissions, taking
from agentstop.api import shapes, work_shapes
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agent_of, agents, anyone, caller
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id, Number
from agentstop.exceptions import TaskNotFound
from agentstop.inputs import Input
from agentstop.models import Input as Row
from agentstop.models.facts import Decided
from agentstop.runs import Run
from agentstop.tokens import Scope

of_tasks = Router(tags=["inputs"])
of_runs = Router(tags=["inputs"])
router = Router(tags=["inputs"])

DONE = {200: shapes.DoneOut, **REFUSALS}


@of_tasks.post(
    "", response={201: work_shapes.TypedOut, **REFUSALS}, auth=anyone(Scope.CONTROL), operation_id="add_input"
)
def add(request: HttpRequest, task: Id, typed: work_shapes.InputIn) -> Status[work_shapes.TypedOut]:
    """Keep a text for the task's agent: the live run takes it, else the next one. A stop holds what waits."""
    who = caller(request)
    permissions.get_allowed(who.user, "start_run", task, Decided.ADD, reason=who.policy)
    return Status(201, _told(inputs.add(task, typed.text, by=who.user)))


@router.post("/{input}/release", response=DONE, auth=anyone(Scope.CONTROL), operation_id="release_input")
def release(request: HttpRequest, input: Id) -> dict[str, bool]:
    """A person lets the next run that asks have what a stop holds. Not done where it was not held."""
    return _decided(input, caller(request).person, Decided.RELEASE, inputs.release)


@router.post("/{input}/withdraw", response=DONE, auth=anyone(Scope.CONTROL), operation_id="withdraw_input")
def withdraw(request: HttpRequest, input: Id) -> dict[str, bool]:
    """No run gets it any more. Not done where the live run has it, or it was done with."""
    return _decided(input, caller(request).user, Decided.WITHDRAW, inputs.withdraw)


def _decided(number: int, user: Any, verb: Decided, decide: Callable[..., bool]) -> dict[str, bool]:
    row = Row.objects.using(database.alias()).filter(pk=number).first()
    try:
        if row is None:
            raise _not_for_you(number)
        permissions.get_allowed(user, "start_run", row.task_id, verb)
    except TaskNotFound:
        raise _not_for_you(number) from None
    return {"done": decide(number, by=user)}


def _not_for_you(number: int) -> TaskNotFound:
    return TaskNotFound(f"There is no input {number} for you.")


@of_runs.post("", response={200: work_shapes.TakenOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="take_inputs")
def take(
    request: HttpRequest, task: Id, run: Number, wish: work_shapes.TakeIn = work_shapes.NO_TAKE
) -> work_shapes.TakenOut:
    """What waits is this run's from now on, and no other's. 409 once the run is over, or paused: nothing is taken.

    Where the answer is lost, a person sees that they were taken and not done, and decides.
    """
    agent_of(request, task, verb=Decided.START)
    return work_shapes.TakenOut(inputs=[_told(one) for one in taking.take(task, run, wish.most)])


@of_runs.post("/{input}/done", response=DONE, auth=agents(Scope.RUN), operation_id="input_done")
def done(request: HttpRequest, task: Id, run: Number, input: Id) -> dict[str, bool]:
    """The agent has acted on it: it is not given to another run. Not done where that was said before."""
    agent_of(request, task)
    try:
        return {"done": Run(task, run).input_done(input)}
    except ValueError as error:
        raise Problem("invalid", str(error)) from error


def _told(one: Input) -> work_shapes.TypedOut:
    return work_shapes.TypedOut(id=one.id, task=one.task_id, text=one.text, by=one.by, at=one.at)
