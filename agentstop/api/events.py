"""Changes of a task, by long poll: states, not messages that could be lost."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router

from agentstop.api import shapes, telling, waits
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import anyone, caller
from agentstop.api.shapes import Id
from agentstop.tokens import Scope

router = Router(tags=["tasks"])


@router.get(
    "/{task}/events", response={200: shapes.EventsOut, **REFUSALS}, auth=anyone(Scope.READ), operation_id="events"
)
def events(request: HttpRequest, task: Id, since: Query[shapes.SinceIn]) -> shapes.EventsOut:
    """The task's report once it reads otherwise than at the cursor, else null after `wait` seconds.

    Whatever happened in between is in the report: nothing is lost by asking late. Without a cursor it answers at once.
    """
    user = caller(request).user

    def look() -> shapes.ReportOut | None:
        return telling.whole_since(since.cursor, task, user)  # which asks again whether this user may see it

    found = waits.until(look, task, since.wait)
    return shapes.EventsOut(cursor=found.cursor if found is not None else since.cursor, report=found)
