"""Children of a run: begun for it, linked to it, waited for by it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from agentstop import children
from agentstop.api import shapes, waits, work_shapes
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agent_of, agents
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id, Number
from agentstop.models.facts import Decided
from agentstop.runs import Run, begin, serve
from agentstop.tokens import Scope

router = Router(tags=["children"])


@router.post("", response={201: shapes.RunOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="begin_child")
def begin_child(request: HttpRequest, task: Id, run: Number, wish: work_shapes.ChildIn) -> Status[shapes.RunOut]:
    """Begin a task that works for this run, and goes on as long as it is live.

    409 `stopped` where the run is over. Under the same `key` it is the same child: in a new run where it has not
    finished, and as it is where it has.
    """
    agent_of(request, task, verb=Decided.START)
    options: Any = {"detached": wish.detached, "key": wish.key}
    try:
        child = begin(wish.title, serves=[Run(task, run)], **options)
    except ValueError as error:
        raise Problem("invalid", str(error)) from error
    return Status(201, shapes.RunOut(task=child.task_id, run=child.number, token=child.token))


@router.post("/{child}", response={200: shapes.DoneOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="link_child")
def link(request: HttpRequest, task: Id, run: Number, child: Id) -> dict[str, bool]:
    """From now on that task works for this run too, and goes on as long as one of those that it works for is live."""
    agent_of(request, task, verb=Decided.START)
    agent_of(request, child, verb=Decided.START)
    serve(child, Run(task, run))
    return {"done": True}


@router.get(
    "/{child}", response={200: work_shapes.ChildOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="wait_for_child"
)
def wait(request: HttpRequest, task: Id, run: Number, child: Id, how: Query[shapes.WaitIn]) -> work_shapes.ChildOut:
    """How a child of this run has ended, as soon as it has, or null after `wait` seconds.

    409 `child_stopped` where it was stopped by itself, and once this run is over.
    """
    agent_of(request, task)
    agent_of(request, child)
    try:
        look = children.look(Run(task, run), child)
    except ValueError as error:
        raise Problem("invalid", str(error)) from error
    return work_shapes.ChildOut(child=child, state=waits.until(look, child, how.wait))
