"""Operations: the gate for a process elsewhere, what it has heard, and what became of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from agentstop import approvals, database, permissions, reconcile, remote
from agentstop import request as requests
from agentstop.accounts import selection
from agentstop.api import desk_shapes, shapes, telling, waits
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agent_of, agents, anyone, caller, no_operation, person_for, require_connector
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id, Number
from agentstop.compensate import compensate
from agentstop.exceptions import TaskNotFound, Unanswered
from agentstop.models import Operation
from agentstop.models.facts import Decided
from agentstop.outcomes import Outcome
from agentstop.remote import Passed, Ticket
from agentstop.reports import report
from agentstop.settlement import settle_by_hand
from agentstop.states import Claim, OperationState
from agentstop.tokens import Scope

of_runs = Router(tags=["operations"])
router = Router(tags=["operations"])


@of_runs.post(
    "",
    response={201: shapes.PassedOut, 200: shapes.DoneBeforeOut, 202: shapes.WaitsOut, **REFUSALS},
    auth=agents(Scope.RUN),
    operation_id="gate",
    by_alias=True,
)
def gate(request: HttpRequest, task: Id, run: Number, wish: shapes.GateIn, how: Query[shapes.WaitIn]) -> Status[Any]:
    """Ask for leave to send, once: 201 is a pass for this attempt. Send on no other answer.

    The pass is committed when it is answered. Where the answer is lost, ask again with the same key: 409 `in_flight`
    while somebody may still send, then `outcome_unknown`, or a new pass where sending again is known to be harmless.
    With `approve` it is 202 until a person has decided, asked again at the latest after `wait` seconds.
    """
    require_connector(request, wish.connector)
    agent_of(request, task, verb=Decided.START)
    asked: requests.Request | Outcome | int = _request(task, run, wish)
    if wish.approve and isinstance(asked, requests.Request):
        asked = _cleared(asked, wish.approve, how.wait)
    if isinstance(asked, int):
        return Status(202, shapes.WaitsOut(passed=False, question=telling.asked(asked)))
    found = asked if isinstance(asked, Outcome) else remote.enter(asked)
    if isinstance(found, Passed):
        return Status(201, _passed(found))
    return Status(200, _done(found))


def _request(task: int, run: int, wish: shapes.GateIn) -> requests.Request:
    options: Any = wish.model_dump(exclude={"action", "args", "approve"}, exclude_none=True)
    try:
        return requests.make(task, run, wish.action, wish.args, options)
    except ValueError as error:
        raise Problem("invalid", str(error)) from error


def _cleared(request: requests.Request, text: str, seconds: float) -> requests.Request | Outcome | int:
    """What a person has let through, or the question that waits for them."""
    waiting = 0

    def look() -> requests.Request | Outcome | None:
        nonlocal waiting
        try:
            return approvals.cleared(request, text, wait=False)
        except Unanswered as unanswered:
            waiting = unanswered.question or 0
            return None

    try:
        return waits.until(look, request.task, seconds) or waiting
    except ValueError as error:
        raise Problem("invalid", f"approve: {error}") from error


def _passed(found: Passed) -> shapes.PassedOut:
    return shapes.PassedOut(
        passed=True,
        operation=found.operation,
        attempt=found.attempt,
        idempotency_key=found.idempotency_key,
        held=str(found.ticket),
        good_for=found.ticket.lease,
        deadline=found.ticket.deadline,
    )


def _done(found: Outcome) -> shapes.DoneBeforeOut:
    told = {"operation": found.operation, "got": found.outcome, "result": found.result, "error": found.error}
    return shapes.DoneBeforeOut.model_validate({"passed": False, **told})


@router.post(
    "/{operation}/receipts",
    response={200: shapes.ReceiptOut, **REFUSALS},
    auth=agents(Scope.RUN),
    operation_id="hand_in_receipt",
)
def receipt(request: HttpRequest, operation: Id, heard: shapes.ReceiptIn) -> shapes.ReceiptOut:
    """What was heard of an attempt. It is kept whatever has become of the run; handed in twice, it is kept twice.

    `succeeded` with its result, `failed`: the provider says that there is no effect; `accepted` with its `ref`;
    `progress`; `unsent`: no byte has left, proven; `lost`: nothing is known.
    """
    ticket = Ticket.read(heard.held, operation=operation)
    agent_of(request, ticket.task)
    if (heard.progress is None) is (heard.claim == "progress"):
        raise Problem("invalid", "progress: a number from 0 to 1 belongs to the claim 'progress', and to no other.")
    said = heard.progress if heard.claim == "progress" else heard.said
    settled = remote.hand_in(ticket, Claim(heard.claim), ref=heard.ref, said=said)
    state = OperationState(settled.state)
    return shapes.ReceiptOut(operation=operation, state=state, got=settled.outcome, error=settled.error)


@router.get(
    "/{operation}", response={200: shapes.OperationOut, **REFUSALS}, auth=anyone(Scope.READ), operation_id="operation"
)
def read(request: HttpRequest, operation: Id) -> shapes.OperationOut:
    """What is known of an operation now."""
    return _told(operation, caller(request).user)


@router.post(
    "/{operation}/look-up",
    response={200: shapes.LookedOut, **REFUSALS},
    auth=anyone(Scope.CONTROL),
    operation_id="look_up",
)
def look_up(request: HttpRequest, operation: Id) -> shapes.LookedOut:
    """Ask the provider now what became of it, where it can be asked; that has no effect of its own."""
    who = caller(request)
    try:
        asked = reconcile.look_up_now(operation, by=who.user)
    except TaskNotFound:
        raise no_operation(operation) from None
    return shapes.LookedOut(asked=asked, operation=_told(operation, who.user))


@router.post(
    "/{operation}/settle",
    response={200: shapes.OperationOut, **REFUSALS},
    auth=anyone(Scope.CONTROL),
    operation_id="settle",
)
def settle(request: HttpRequest, operation: Id, word: desk_shapes.SettleIn) -> shapes.OperationOut:
    """A person settles what no evidence does: it is shown as theirs, with the reason, and later evidence beside it."""
    person = person_for(request, operation, "settle_operation", Decided.SETTLE, word.reason)
    settle_by_hand(operation, by=person, outcome=word.outcome, reason=word.reason, attempts=word.attempts)
    return _told(operation, person)


@router.post(
    "/{operation}/undo",
    response={201: desk_shapes.UndoingOut, **REFUSALS},
    auth=anyone(Scope.CONTROL),
    operation_id="undo",
)
def undo(
    request: HttpRequest, operation: Id, wish: shapes.ReasonIn = shapes.NO_REASON
) -> Status[desk_shapes.UndoingOut]:
    """A person undoes what is known to have been done, by another operation; its `undo` names the consequences."""
    person = person_for(request, operation, "compensate_operation", Decided.COMPENSATE, wish.reason)
    undoing = compensate(operation, by=person, reason=wish.reason)
    return Status(201, desk_shapes.UndoingOut(operation=undoing.operation, undoes=operation))


def _told(operation: int, user: Any) -> shapes.OperationOut:
    row = Operation.objects.using(database.alias()).select_related("task").filter(pk=operation).first()
    if row is None or not permissions.may(user, "view_task", row.task):
        raise no_operation(operation)
    told, _ = report.load(row.task_id, user, selection.only([operation]))
    return telling.operation(next(each for each in told.operations if each.id == operation))
