"""What is told of one task: the same values for page, list, websocket, admin and API, in the active language."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from agentstop import closing, permissions
from agentstop.accounts import account, selection
from agentstop.accounts.account import Account
from agentstop.accounts.selection import Choice
from agentstop.exceptions import TaskNotFound
from agentstop.models import Task
from agentstop.reports import (
    controls,
    family_report,
    freeze_report,
    input_report,
    question_report,
    remedies,
    rest_report,
)
from agentstop.reports.controls import Controls
from agentstop.reports.family_report import FamilyReport
from agentstop.reports.input_report import InputsReport
from agentstop.reports.operation_report import OPEN, OperationReport, read_operation
from agentstop.reports.question_report import QuestionReport
from agentstop.reports.remedies import name_of
from agentstop.reports.rest_report import RestReport
from agentstop.reports.role import Role
from agentstop.states import Cancellation, Folded, OperationState, RunState, TaskState
from agentstop.words import agent_wording, sentences, wording
from agentstop.words import question_sentences as about_questions
from agentstop.words.agent_wording import AgentLine
from agentstop.words.frozen_words import HeldTold
from agentstop.words.sentences import Label


@dataclass(frozen=True, slots=True)
class StopTold:
    """Who stopped the task, when and why."""

    by: str
    at: datetime
    reason: str
    dispatch: str  # the last dispatch beside the press


@dataclass(frozen=True, slots=True)
class LateStop:
    """Who pressed Stop after the task had ended, when and why; `through`: it came with a task that it worked for."""

    by: str
    at: datetime
    reason: str
    through: bool


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What is told of one task. `digest` is equal for equal words, whoever looks and when."""

    id: int
    title: str
    owner: str
    state: TaskState
    name: str
    since: datetime
    run: int  # the number that a press on what is shown must name
    live: bool  # a run is
    stop: StopTold | None
    late_stop: LateStop | None  # a stop after it had ended
    held: tuple[HeldTold, ...]  # by freezes that affect it
    agent: AgentLine
    summary: str
    failures: str
    operations: tuple[OperationReport, ...]  # those that were read one by one
    rest: RestReport  # the others
    goes_on: bool  # an operation of it may still have its effect
    unsure: bool  # the outcome of one is unknown
    inputs: InputsReport
    questions: tuple[QuestionReport, ...]  # the newest first
    family: FamilyReport
    controls: Controls
    overdue: int
    stoppable: bool  # there is something that a stop would end
    may_come_back: bool  # its agent has failed, and a job that is delivered again would begin it
    changes_at: datetime | None = field(compare=False)
    now: datetime = field(compare=False)

    @property
    def asks(self) -> bool:
        """Whether a question waits for a person."""
        return any(question.is_open for question in self.questions)

    @property
    def digest(self) -> str:
        shown = repr([getattr(self, each.name) for each in fields(self) if each.compare])
        return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:16]


def load(task_id: int, user: Any, choice: Choice = selection.PANEL) -> tuple[TaskReport, Role]:
    """The report of a task as this user may read it; TaskNotFound where there is none for them."""
    found = account.load(task_id, choice)
    if found is None or not permissions.may(user, "view_task", found.task):
        raise TaskNotFound(f"There is no task {task_id} for you. Check the address, or ask its owner.")
    return tell(found), Role.of(user, found.task, found.family.relatives)


def load_all(tasks: Sequence[Task], user: Any) -> list[tuple[TaskReport, Role]]:
    """The reports of those tasks that this user may see, in as many queries as one takes: for lists.

    Operations are counted in them, and hardly one is read.
    """
    found = account.load_all([task.pk for task in tasks], selection.ROW)
    seen = [each for each in found if permissions.sees(user, each.task)]
    return [(tell(each), Role.of(user, each.task)) for each in seen]


def tell(found: Account) -> TaskReport:
    """The report of an account, in the active language."""
    task, state = found.task, TaskState(found.task.state)
    undoings = remedies.undoings_of(found.operations)
    operations = tuple(read_operation(known, task, undoings.get(known.row.pk, ())) for known in found.operations)
    stoppable = _stoppable(state, found) or found.family.reached
    held = tuple(map(freeze_report.tell, found.freezes))
    questions = tuple(question_report.tell(asked) for asked in reversed(found.questions))
    counts = Counter(operation.reading.label for operation in operations if operation.undoes is None)
    undone = Counter(operation.reading.label for operation in operations if operation.undoes is not None)
    counts.update(rest_report.counts(found, undoing=False))
    undone.update(rest_report.counts(found, undoing=True))
    return TaskReport(
        id=task.pk,
        title=task.title,
        owner=name_of(task.owner),
        state=state,
        name=gettext(sentences.TASK_NAMES[state]),
        since=task.state_since,
        run=task.last_run,
        live=task.live_run is not None,
        stop=_stop(task),
        late_stop=_late_stop(task),
        held=held,
        agent=question_report.read_agent(_agent(found), found),
        summary=wording.summarise(
            state,
            counts,
            *_shut(task),
            *(each.text for each in held),
            *question_report.summarise(questions),
            undoings=wording.count(undone),
        ),
        failures=_failures(operations, rest_report.failed(found)),
        operations=tuple(_awaited(operation, questions) for operation in operations),
        rest=rest_report.tell(found),
        goes_on=found.rest.goes_on or any(each.is_open for each in operations),
        unsure=found.rest.unsure or any(each.state is OperationState.UNKNOWN for each in operations),
        inputs=input_report.tell(found),
        questions=questions,
        family=family_report.tell(found),
        controls=controls.of(found, stoppable=stoppable),
        overdue=found.overdue,
        stoppable=stoppable,
        may_come_back=found.may_come_back,
        changes_at=found.changes_at,
        now=found.now,
    )


def _awaited(operation: OperationReport, questions: Sequence[QuestionReport]) -> OperationReport:
    """An operation for which a person is asked says so."""
    if operation.reading.label is not Label.WAITING or not question_report.asked_about(operation.id, questions):
        return operation
    reading = replace(operation.reading, next_step=gettext(about_questions.WAITS_FOR_APPROVAL))
    return replace(operation, reading=reading)


def _stop(task: Task) -> StopTold | None:
    if task.stopped_at is None:
        return None
    policy = task.stop_decision.policy if task.stop_decision is not None else ""
    return StopTold(name_of(task.stopped_by) or policy, task.stopped_at, task.stop_reason, _dispatch(task))


def _late_stop(task: Task) -> LateStop | None:
    late = task.late_stop
    if late is None:
        return None
    return LateStop(name_of(late.by) or late.policy, late.at, late.reason, late.policy == closing.FAMILY)


def _shut(task: Task) -> list[str]:
    """What follows from a stop after its end, for the one line."""
    late = task.late_stop
    if late is None:
        return []
    return [sentences.SHUT_WITH_OTHERS if late.policy == closing.FAMILY else sentences.SHUT]


def _dispatch(task: Task) -> str:
    """Told of the task that was pressed: those that were stopped with it have the press in its decision."""
    decision = task.stop_decision
    if decision is None or decision.task_id != task.pk or "pressed_at" not in decision.detail:
        return ""
    last = decision.detail.get("last_dispatch_at")
    pressed_at = datetime.fromisoformat(decision.detail["pressed_at"])
    return agent_wording.read_press(pressed_at, datetime.fromisoformat(last) if last else None)


def _agent(found: Account) -> AgentLine:
    run = found.run
    return agent_wording.read_agent(
        RunState(run.state) if run is not None else None,
        TaskState(found.task.state),
        stopped_at=found.task.stopped_at,
        halted_at=run.halted_at if run is not None else None,
        heard_at=found.heard_at,
        silent=found.silent,
    )


def _stoppable(state: TaskState, found: Account) -> bool:
    """Dispatch is open, its job may come back, or something is under way that nobody has asked to cancel yet."""
    if state in (TaskState.ACTIVE, TaskState.PAUSED):
        return True
    folds = (known.folded for known in found.operations)
    if state is TaskState.FINISHED and found.may_come_back:
        return True
    uncancelled = any(_goes_on(folded) and folded.cancellation is Cancellation.NONE for folded in folds)
    return state is TaskState.FINISHED and (
        uncancelled or any(group.is_open and not group.asked for group in found.rest.groups)
    )


def _goes_on(folded: Folded) -> bool:
    return folded.state in OPEN or folded.another_open


def _failures(operations: tuple[OperationReport, ...], more: Iterable[str]) -> str:
    failed = [*(each.action for each in operations if each.reading.label is Label.FAILED), *more]
    if not failed:
        return ""
    named = ", ".join(dict.fromkeys(failed))
    return gettext(sentences.FAILED_OPERATIONS) % {"operations": named[:200]}
