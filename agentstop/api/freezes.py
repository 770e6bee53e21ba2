"""Freezes: what an operator holds for everybody."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from ninja import Router, Status

from agentstop import freeze as freezing
from agentstop.api import desk_shapes, shapes, telling
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import anyone, caller
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id
from agentstop.exceptions import Denied
from agentstop.freeze import NoSuchFreeze
from agentstop.tokens import Scope

router = Router(tags=["freezes"])

NOT_YOURS = "You may not hold dispatch for others, nor see what holds it. Ask an operator."


@router.get(
    "", response={200: desk_shapes.FreezesOut, **REFUSALS}, auth=anyone(Scope.FREEZE), operation_id="find_freezes"
)
def find(request: HttpRequest) -> desk_shapes.FreezesOut:
    """What is held now, for those who may hold it."""
    if not freezing.may_freeze(caller(request).user):
        raise Denied(NOT_YOURS)
    return desk_shapes.FreezesOut(freezes=[telling.freeze(row) for row in freezing.in_force()])


@router.post("", response={201: desk_shapes.FreezeOut, **REFUSALS}, auth=anyone(Scope.FREEZE), operation_id="freeze")
def freeze(request: HttpRequest, wish: desk_shapes.FreezeIn) -> Status[desk_shapes.FreezeOut]:
    """Hold dispatch. When this is answered, nothing that it covers passes the gate any more, in any process."""
    who = caller(request)
    scope = {"connector": wish.connector, "action": wish.action}
    owner = _user(wish.owner) if wish.owner and freezing.may_freeze(who.user) else None
    try:
        made = freezing.freeze(
            **scope, owner=owner, by=who.user, reason=wish.reason, until=wish.until, policy=who.policy
        )
    except ValueError as error:
        raise Problem("invalid", str(error)) from error
    return Status(201, telling.freeze(made))


def _user(name: str) -> object:
    model = get_user_model()
    found = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if found is None:
        raise Problem("invalid", f"owner: there is no user {name!r}.")
    return found


@router.post(
    "/{freeze}/lift", response={200: shapes.DoneOut, **REFUSALS}, auth=anyone(Scope.FREEZE), operation_id="unfreeze"
)
def lift(request: HttpRequest, freeze: Id, why: shapes.ReasonIn = shapes.NO_REASON) -> dict[str, bool]:
    """Let it leave again. Not done where it held nothing any more."""
    who = caller(request)
    try:
        return {"done": freezing.unfreeze(freeze, by=who.user, reason=why.reason, policy=who.policy)}
    except NoSuchFreeze:
        if not freezing.may_freeze(who.user):
            raise Denied(NOT_YOURS) from None
        raise
