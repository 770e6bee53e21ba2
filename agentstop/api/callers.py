"""Who calls: an application by its service token, or a person by their session; and what they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from agentstop import database, permissions, tokens
from agentstop.api.guesses import guesses
from agentstop.api.problems import Problem
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Operation, ServiceToken, Task
from agentstop.models.facts import Decided
from agentstop.tokens import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose rights count, and the token where an application uses them."""

    user: Any
    token: ServiceToken | None = None

    @property
    def policy(self) -> str:
        """What is noted beside the user where no person pressed."""
        return f"api: {self.token.application}"[:100] if self.token is not None else ""

    @property
    def person(self) -> Any:
        """The user who is here; Problem where it is an application."""
        if self.token is not None:
            raise Problem("not_for_applications")
        return self.user


class ServiceAuth(HttpBearer):
    """`Authorization: Bearer agentstop_…`, with this scope."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        found = tokens.find(token)
        if found is None:
            seconds = guesses.wrong(request.META.get("REMOTE_ADDR", ""))
            if seconds:
                raise Problem("too_many", f"Too many wrong tokens came from here. Wait for {seconds} seconds.")
            raise Problem("unauthenticated", "This token is not known, has ended or was revoked.")
        if self.scope not in found.scopes:
            raise Problem("no_scope", f"The token of {found.application} has no scope {self.scope.value!r}.")
        return Caller(found.user, found)


class SessionAuth(APIKeyCookie):
    """The session of a person who is logged in; what changes something needs the CSRF token."""

    param_name = "sessionid"

    def __call__(self, request: HttpRequest) -> Caller | None:
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise Problem("csrf")
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller:
        return Caller(request.user)


def no_person(request: HttpRequest) -> None:
    """People are told that an address is not for them."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        raise Problem("not_for_people")


def anyone(scope: Scope) -> list[Any]:
    """People, and applications with this scope."""
    return [ServiceAuth(scope), SessionAuth()]


def agents(scope: Scope) -> list[Any]:
    """Applications with this scope, and nobody else."""
    return [ServiceAuth(scope), no_person]


def caller(request: HttpRequest) -> Caller:
    """Who was let in."""
    found: Caller = request.auth  # type: ignore[attr-defined]  # set by Ninja
    return found


def visible(request: HttpRequest, task: int) -> Task:
    """The task, for one who may see it; TaskNotFound for others."""
    return permissions.get_visible(caller(request).user, task)


def agent_of(request: HttpRequest, task: int, *, verb: Decided | None = None) -> Task:
    """The task, for an application that may run it. With `verb` a try without the right is kept, a stranger's too."""
    who = caller(request)
    if verb is not None:
        return permissions.get_allowed(who.user, "start_run", task, verb, reason=who.policy)
    found = visible(request, task)
    if not permissions.may(who.user, "start_run", found):
        raise Denied(f"You may see task {task}, and not run it. Ask its owner or an operator.")
    return found


def person_for(request: HttpRequest, operation: int, permission: str, verb: Decided, reason: str) -> Any:
    """The person, who may do this to the operation and see it; a try without the right is kept, a stranger's too."""
    person = caller(request).person
    row = Operation.objects.using(database.alias()).filter(pk=operation).first()
    try:
        if row is None:
            raise no_operation(operation)
        permissions.get_allowed(person, permission, row.task_id, verb, reason=reason)
    except TaskNotFound:
        raise no_operation(operation) from None
    return person


def no_operation(operation: int) -> TaskNotFound:
    """Nothing is learned of one that is there."""
    return TaskNotFound(f"There is no operation {operation} for you.")


def require_connector(request: HttpRequest, connector: str) -> None:
    """Problem where the token does not name the connector."""
    token = caller(request).token
    if token is None or not tokens.may_send(token, connector):
        raise Problem("connector_not_allowed", f"The token does not name connector {connector!r}.")
