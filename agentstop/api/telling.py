"""Rows and reports in the shapes of the API."""

from __future__ import annotations

from typing import Any

from agentstop import database, question_facts
from agentstop.api import desk_shapes, shapes
from agentstop.models import Freeze, Question, Task
from agentstop.permissions import get_visible
from agentstop.reports import question_report, report
from agentstop.reports.input_report import InputReport
from agentstop.reports.operation_report import OperationReport
from agentstop.reports.question_report import QuestionReport
from agentstop.reports.remedies import name_of
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role
from agentstop.states import TaskState


def task(row: Task) -> shapes.TaskOut:
    """A task."""
    stopped = None
    if row.stopped_at is not None:
        by = name_of(row.stopped_by) or (row.stop_decision.policy if row.stop_decision is not None else "")
        stopped = shapes.StoppedOut(by=by, at=row.stopped_at, reason=row.stop_reason)
    late = row.late_stop
    shut = shapes.StoppedOut(by=name_of(late.by) or late.policy, at=late.at, reason=late.reason) if late else None
    return shapes.TaskOut(
        id=row.pk,
        title=row.title,
        owner=name_of(row.owner),
        subject=_subject(row),
        state=TaskState(row.state),
        since=row.state_since,
        run=row.last_run,
        live=row.live_run is not None,
        stopped=stopped,
        late_stop=shut,
        created_at=row.created_at,
    )


def _subject(row: Task) -> str:
    kind = row.subject_type
    return f"{kind.app_label}.{kind.model}:{row.subject_id}" if kind is not None else ""


def whole(task_id: int, user: Any) -> shapes.ReportOut:
    """The report of a task as this user may read it; TaskNotFound where there is none for them."""
    return _whole(*report.load(task_id, user), user)


def whole_since(cursor: str, task_id: int, user: Any) -> shapes.ReportOut | None:
    """The same, where it reads otherwise than at the cursor."""
    told, role = report.load(task_id, user)
    return _whole(told, role, user) if told.digest != cursor else None


def _whole(told: TaskReport, role: Role, user: Any) -> shapes.ReportOut:
    return shapes.ReportOut(
        task=task(get_visible(user, told.id)),
        summary=told.summary,
        agent=told.agent.text,
        failures=told.failures,
        held=[each.text for each in told.held],
        operations=[operation(each) for each in told.operations],
        others=[text for text in (told.rest.open_text, told.rest.text) if text],
        questions=[question(each) for each in told.questions],
        inputs=[typed(each) for each in (*told.inputs.held, *told.inputs.waiting, *told.inputs.over)],
        family=told.family.counts if role.sees_family else "",
        goes_on=told.goes_on,
        unsure=told.unsure,
        stoppable=told.stoppable,
        overdue=told.overdue,
        changes_at=told.changes_at,
        cursor=told.digest,
    )


def operation(told: OperationReport) -> shapes.OperationOut:
    """An operation."""
    return shapes.OperationOut(
        id=told.id,
        key=told.key,
        incarnation=told.incarnation,
        connector=told.connector,
        action=told.action,
        summary=told.summary,
        ref=told.ref,
        state=told.state,
        is_open=told.is_open,
        cancellation=told.cancellation,
        label=told.reading.label,
        name=told.reading.name,
        evidence=told.reading.evidence,
        cancelling=told.reading.cancellation,
        next_step=told.reading.next_step,
        limit=told.reading.limit,
        since=told.reading.since,
        progress=told.progress.fraction if told.progress is not None else None,
        link=told.link,
        can_look_up=told.can_look_up,
        can_settle=told.can_settle,
        can_undo=told.way_to_undo is not None,
        undo=told.way_to_undo.consequences if told.way_to_undo is not None else "",
        undone=told.undoing.text if told.undoing is not None else "",
        undoes=told.undoes.id if told.undoes is not None else None,
    )


def typed(told: InputReport) -> shapes.InputOut:
    """An input."""
    return shapes.InputOut(
        id=told.id,
        text=told.text,
        cut=told.cut,
        by=told.by,
        at=told.at,
        state=told.state,
        label=told.reading.name,
        can_release=told.can_release,
        can_withdraw=told.can_withdraw,
    )


def freeze(row: Freeze) -> desk_shapes.FreezeOut:
    """A freeze."""
    return desk_shapes.FreezeOut(
        id=row.pk,
        connector=row.connector,
        action=row.action,
        owner=name_of(row.owner),
        of_owner=row.of_owner,
        by=name_of(row.by) or row.policy,
        reason=row.reason,
        at=row.at,
        until=row.until,
        in_force_at=row.in_force_at,
    )


def question(told: QuestionReport) -> shapes.QuestionOut:
    """A question."""
    return shapes.QuestionOut(
        id=told.id,
        kind=told.kind.value,
        text=told.text,
        choices=list(told.choices),
        details=told.details,
        operation=told.operation,
        state=told.state,
        asked_at=told.asked_at,
        until=told.until,
        value=told.answer,
        reason=told.reason,
    )


def asked(number: int) -> shapes.QuestionOut:
    """The question of that number, and what became of it."""
    [found] = question_facts.read(Question.objects.filter(pk=number), database.now())
    return question(question_report.tell(found))
