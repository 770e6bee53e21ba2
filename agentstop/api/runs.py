"""Runs, for the agent: begin, ask whether to go on, say that one lives, end."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router, Status

from agentstop import remote, starting
from agentstop.api import shapes
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agent_of, agents, anyone, caller
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id, Number
from agentstop.exceptions import BadToken, Finished, Paused, Refused, Stopped, Superseded
from agentstop.models.facts import Decided
from agentstop.remote import Ticket
from agentstop.runs import Run, begin
from agentstop.tokens import Scope

router = Router(tags=["runs"])

OVER: dict[type[Refused], shapes.Over] = {Stopped: "stopped", Superseded: "superseded", Finished: "finished"}


@router.post("", response={201: shapes.RunOut, **REFUSALS}, auth=anyone(Scope.RUN), operation_id="begin")
def begin_run(request: HttpRequest, task: Id, wish: shapes.BeginIn = shapes.NO_BEGIN) -> Status[shapes.RunOut]:
    """Begin a new run; the current one is superseded. An application cannot begin one of a task that was stopped.

    For a person the agent is started, too, in the way that this site has set up.
    """
    who = caller(request)
    if who.token is None and wish.keep:
        raise Problem("invalid", "keep: only the agent that goes on for another knows which children it needs.")
    if who.token is None:
        run = starting.start(task, by=who.user, run=wish.run)
    else:
        agent_of(request, task, verb=Decided.START)
        try:
            run = begin(task, keep=wish.keep) if wish.run is None else begin(task, keep=wish.keep, run=wish.run)
        except ValueError as error:
            raise Problem("invalid", str(error)) from error
    return Status(201, shapes.RunOut(task=run.task_id, run=run.number, token=run.token))


@router.get("/{run}", response={200: shapes.StopSignalOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="check")
def check(request: HttpRequest, task: Id, run: Number) -> shapes.StopSignalOut:
    """Whether the run may go on: ask it before every model call. It is a sign of life as well."""
    agent_of(request, task)
    over, paused = _signal(Run(task, run))
    return shapes.StopSignalOut(task=task, run=run, live=over is None, over=over, paused=paused)


@router.post(
    "/{run}/heartbeat",
    response={200: shapes.HeartbeatOut, **REFUSALS},
    auth=agents(Scope.RUN),
    operation_id="heartbeat",
)
def heartbeat(
    request: HttpRequest, task: Id, run: Number, held: shapes.HeartbeatIn = shapes.NO_HEARTBEAT
) -> shapes.HeartbeatOut:
    """The agent lives, and holds these passes, which are renewed; the answer holds the stop signal."""
    agent_of(request, task)
    tickets = [_of_run(Ticket.read(each), task, run) for each in held.passes]
    renewed = [ticket.operation for ticket in tickets if remote.renew(ticket)]
    over, paused = _signal(Run(task, run))
    return shapes.HeartbeatOut(task=task, run=run, live=over is None, over=over, paused=paused, renewed=renewed)


@router.post("/{run}/finish", response={200: shapes.DoneOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="finish")
def finish(request: HttpRequest, task: Id, run: Number) -> dict[str, bool]:
    """The run has reached its end. Not done where it was over before."""
    agent_of(request, task, verb=Decided.FINISH)
    return {"done": Run(task, run).finish()}


@router.post("/{run}/fail", response={200: shapes.DoneOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="fail")
def fail(request: HttpRequest, task: Id, run: Number, wrong: shapes.FailIn = shapes.NO_FAIL) -> dict[str, bool]:
    """The run has ended by a fault of its own. Not done where it was over before."""
    agent_of(request, task, verb=Decided.FAIL)
    return {"done": Run(task, run).fail(wrong.error)}


@router.post("/{run}/halted", response={200: shapes.DoneOut, **REFUSALS}, auth=agents(Scope.RUN), operation_id="halted")
def halted(request: HttpRequest, task: Id, run: Number) -> dict[str, bool]:
    """The agent has taken notice that its run is over, and goes no further. Not done while the run is live."""
    agent_of(request, task, verb=Decided.FINISH)
    over, _ = _signal(Run(task, run))
    if over is not None:
        Run(task, run).halted()
    return {"done": over is not None}


def _of_run(ticket: Ticket, task: int, run: int) -> Ticket:
    if (ticket.task, ticket.run) != (task, run):
        raise BadToken(f"A pass of operation {ticket.operation} belongs to another run. Nothing was renewed.")
    return ticket


def _signal(run: Run) -> tuple[shapes.Over | None, bool]:
    """Why the run is over, or None; and whether it is paused."""
    try:
        run.check()
    except Paused:
        return None, True
    except (Stopped, Superseded, Finished) as over:
        return OVER[type(over)], False
    return None, False
