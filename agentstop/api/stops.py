"""Stopping many tasks at once: each in a commit of its own, and an answer for each."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from agentstop import bulk, database
from agentstop.api import desk_shapes, problems, shapes, subjects
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import anyone, caller
from agentstop.api.problems import Problem
from agentstop.exceptions import AgentStopError
from agentstop.models import Task
from agentstop.per_task import Answer
from agentstop.stop import StopReport
from agentstop.tokens import Scope

router = Router(tags=["tasks"])


@router.post("", response={200: desk_shapes.StopsOut, **REFUSALS}, auth=anyone(Scope.CONTROL), operation_id="stop_many")
def stop_many(request: HttpRequest, wish: desk_shapes.StopManyIn) -> desk_shapes.StopsOut:
    """Stop several tasks for good. What begins meanwhile is not among them: a freeze holds that."""
    who = caller(request)
    told = bulk.stop_all(_whose(wish, who.user), by=who.user, reason=wish.reason, policy=who.policy)
    stopped = [shapes.StopOut.model_validate(each.report) for each in told.answers if each.report is not None]
    return desk_shapes.StopsOut(stops=stopped, failed=[_failed(each) for each in told.failed])


def _whose(wish: desk_shapes.StopManyIn, user: Any) -> bulk.Whose:
    if [wish.mine, bool(wish.subject), bool(wish.tasks)].count(True) != 1:
        raise Problem("invalid", "Say which tasks in one way: mine, subject or tasks.")
    if wish.mine:
        return user  # type: ignore[no-any-return]
    tasks = Task.objects.using(database.alias())
    return subjects.about(tasks.all(), wish.subject) if wish.subject else tasks.filter(pk__in=wish.tasks)


def _failed(answer: Answer[StopReport]) -> desk_shapes.NotStoppedOut:
    """The words of errors that are not for people stay in the log."""
    error = answer.error
    known = isinstance(error, AgentStopError)
    reason = problems.reason_of(error) if isinstance(error, AgentStopError) else "failed"
    return desk_shapes.NotStoppedOut(task=answer.task, reason=reason, detail=str(error) if known else "It failed here.")
