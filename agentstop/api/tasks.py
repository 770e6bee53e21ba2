"""Tasks: create, find, read, stop, pause, resume."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest
from ninja import Query, Router, Status

from agentstop import lifecycle, pause, permissions
from agentstop.api import shapes, subjects, telling
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agents, anyone, caller, visible
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id
from agentstop.stop import StopReport
from agentstop.stop import stop as stop_task
from agentstop.tokens import Scope

router = Router(tags=["tasks"])


@router.get("", response={200: shapes.TasksOut, **REFUSALS}, auth=anyone(Scope.READ), operation_id="find_tasks")
def find(request: HttpRequest, wanted: Query[shapes.FindIn]) -> shapes.TasksOut:
    """The tasks that you may see, the newest first."""
    user = caller(request).user
    rows = permissions.visible(user)
    if wanted.subject:
        rows = subjects.about(rows, wanted.subject)
    if wanted.state is not None:
        rows = rows.filter(state=wanted.state)
    if wanted.before is not None:
        rows = rows.filter(pk__lt=wanted.before)
    related = rows.select_related("owner", "subject_type", "stopped_by", "stop_decision", "late_stop__by")
    page = list(related.order_by("-pk")[: wanted.limit + 1])
    looked_at = page[: wanted.limit]
    more = looked_at[-1].pk if len(page) > len(looked_at) else None
    return shapes.TasksOut(tasks=[telling.task(row) for row in permissions.seen(user, looked_at)], before=more)


@router.post("", response={201: shapes.TaskOut, **REFUSALS}, auth=agents(Scope.CREATE), operation_id="create_task")
def create(request: HttpRequest, wish: shapes.CreateIn) -> Status[shapes.TaskOut]:
    """A task that has no run yet. Asked twice, there are two: find it by its subject first."""
    owner = _owner(caller(request).user, wish.owner)
    made = lifecycle.create(wish.title, owner=owner, subject=subjects.found(wish.subject))
    return Status(201, telling.task(made))


def _owner(user: Any, name: str) -> Any:
    """Whoever may start runs for others may create tasks for them."""
    if not name or name == user.get_username():
        return user
    if not user.has_perm("agentstop.start_run"):
        raise Problem("denied", f"You may not create tasks for {name!r}.")
    model = get_user_model()
    found = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if found is None:
        raise Problem("invalid", f"owner: there is no user {name!r}.")
    return found


@router.get("/{task}", response={200: shapes.ReportOut, **REFUSALS}, auth=anyone(Scope.READ), operation_id="report")
def read(request: HttpRequest, task: Id) -> shapes.ReportOut:
    """All that is known of a task and its operations now, as the page tells it."""
    return telling.whole(task, caller(request).user)


@router.get("/{task}/state", response={200: shapes.TaskOut, **REFUSALS}, auth=anyone(Scope.READ), operation_id="state")
def state(request: HttpRequest, task: Id) -> shapes.TaskOut:
    """A task and its state, without its operations."""
    return telling.task(visible(request, task))


@router.post(
    "/{task}/stop", response={200: shapes.StopOut, **REFUSALS}, auth=anyone(Scope.CONTROL), operation_id="stop"
)
def stop(request: HttpRequest, task: Id, wish: shapes.StopIn = shapes.NO_STOP) -> StopReport:
    """Stop the task for good. When this is answered it is committed: nothing of the task passes the gate any more."""
    who = caller(request)
    return stop_task(task, by=who.user, reason=wish.reason, run=wish.run, policy=who.policy)


@router.post(
    "/{task}/pause", response={200: shapes.DoneOut, **REFUSALS}, auth=anyone(Scope.CONTROL), operation_id="pause"
)
def hold(request: HttpRequest, task: Id, wish: shapes.ReasonIn = shapes.NO_REASON) -> dict[str, bool]:
    """Hold the task's dispatch until it is resumed."""
    who = caller(request)
    return {"done": pause.pause(task, by=who.user, reason=wish.reason, policy=who.policy)}


@router.post(
    "/{task}/resume", response={200: shapes.DoneOut, **REFUSALS}, auth=anyone(Scope.CONTROL), operation_id="resume"
)
def resume(request: HttpRequest, task: Id, wish: shapes.ReasonIn = shapes.NO_REASON) -> dict[str, bool]:
    """Let the same run go on."""
    who = caller(request)
    return {"done": pause.resume(task, by=who.user, reason=wish.reason, policy=who.policy)}
