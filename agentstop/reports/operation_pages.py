"""All operations of one task in pages, newest first, by how they read: what its panel counts and does not list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from agentstop import database
from agentstop.accounts import selection
from agentstop.models import Operation
from agentstop.reports import report
from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role
from agentstop.states import OperationState
from agentstop.words import rest_words

SIZE = 50  # operations of a page


def _in(*states: OperationState) -> Q:
    return Q(state__in=states)


UNDER_WAY = _in(OperationState.SENDING, OperationState.ACCEPTED)
# What is stored of those that may read so; none is left out.
STORED: Mapping[str, Q] = {
    "": Q(),
    "active": UNDER_WAY,
    "unknown": _in(OperationState.UNKNOWN),
    "completed": _in(OperationState.SUCCEEDED),
    "failed": _in(OperationState.FAILED),
    "cancelled": _in(OperationState.CANCELLED),
    "unsent": _in(OperationState.NOT_SENT, OperationState.PREPARED),
}


@dataclass(frozen=True, slots=True)
class Page:
    """Some operations of a task as this user may read them. `older`: the id before which the next page begins."""

    task: TaskReport
    role: Role
    show: str
    operations: tuple[OperationReport, ...]
    older: int | None


def page(task_id: int, user: Any, show: str, before: int | None, size: int = SIZE) -> Page:
    """The newest of those operations, before one of them where it is named; TaskNotFound as for the task.

    Time alone may have changed what is stored of some: a page may hold fewer than there is room for, and no wrong one.
    """
    found = list(_stored(task_id, show, before).values_list("pk", flat=True)[: size + 1])
    told, role = report.load(task_id, user, selection.only(found[:size]))
    labels = rest_words.SHOWN[show][1]
    read = {each.id: each for each in told.operations if each.reading.label in labels}
    rows = tuple(read[pk] for pk in found[:size] if pk in read)
    return Page(told, role, show, rows, found[size - 1] if len(found) > size else None)


def _stored(task_id: int, show: str, before: int | None) -> QuerySet[Operation]:
    rows = Operation.objects.using(database.alias()).filter(_asked(show, database.now()), task=task_id)
    return (rows.filter(pk__lt=before) if before is not None else rows).order_by("-pk")


def _asked(show: str, now: datetime) -> Q:
    return STORED[show] | (UNDER_WAY & Q(due_at__lte=now)) if show == "unknown" else STORED[show]
