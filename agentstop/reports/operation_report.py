"""What is told of one operation: its reading, what became of each job, what can be done, and what was made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.utils.formats import number_format
from django.utils.translation import gettext

from agentstop.accounts.account import Known
from agentstop.accounts.heard import Result
from agentstop.bodies import Form
from agentstop.models import Task
from agentstop.providers.base import Compensation
from agentstop.reports import remedies
from agentstop.reports.remedies import Named, Settling, Undoing
from agentstop.states import Cancellation, Claim, OperationState, TaskState
from agentstop.words import evidence_words, sentences, wording
from agentstop.words.manifold import JobLine, read_jobs
from agentstop.words.sentences import Label
from agentstop.words.wording import Reading, Situation

OPEN = frozenset({OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a provider says that it is, from 0 to 1, and when that was heard."""

    fraction: float
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OperationReport:
    """What is told of one operation."""

    id: int
    key: str
    incarnation: int
    connector: str
    action: str
    summary: str
    ref: str
    state: OperationState
    is_open: bool  # it may still have its effect
    cancellation: Cancellation
    reading: Reading
    progress: Progress | None  # how far its provider says that it is, where it said so and it may go on
    admission: str  # whose context holds its result, or why none does
    doubled: bool  # it was perhaps done more than once
    jobs: tuple[JobLine, ...]  # where it has come back with several references: what is known of each
    link: str  # the http(s) address of what was made; empty where none is known
    answer: str  # the beginning of what the provider said when it failed
    can_look_up: bool  # asking the provider now can tell more
    way_to_undo: Compensation | None  # None: it cannot be undone now
    undoing: Undoing | None  # what undoing it came to
    undoes: Named | None  # the operation that this one undoes
    can_settle: bool  # no evidence has settled it
    settling: Settling | None  # who settled it by hand


def read_operation(known: Known, task: Task, undoings: Sequence[Known]) -> OperationReport:
    """What is told of one operation of the task; `undoings`: those that undo it."""
    row, folded, situation = known.row, known.folded, _situation(known, task)
    undoing = remedies.read_undoing(known, undoings)
    return OperationReport(
        id=row.pk,
        key=row.key,
        incarnation=row.incarnation,
        connector=row.connector,
        action=row.action,
        summary=row.summary,
        ref=row.ref,
        state=folded.state,
        is_open=folded.state in OPEN or folded.another_open,
        cancellation=folded.cancellation,
        reading=_reading(situation, known, task, undone=undoing is not None),
        progress=_progress(known),
        admission=_admission(known, task),
        doubled=folded.doubled,
        jobs=read_jobs(folded),
        link=_link(known.result, row.ref) if folded.state is OperationState.SUCCEEDED else "",
        answer=remedies.said(known.result) if folded.state is OperationState.FAILED else "",
        can_look_up=situation.can_look_up and not remedies.is_told_by_evidence(known),
        way_to_undo=remedies.way_to_undo(known, undoings),
        undoing=undoing,
        undoes=remedies.named(row.compensates) if row.compensates is not None else None,
        can_settle=remedies.can_be_settled(known),
        settling=remedies.read_settling(known),
    )


def _situation(known: Known, task: Task) -> Situation:
    """An undoing was asked for by a person, and is no part of what a stop ends: only its own cancelling ends it."""
    row, folded, asked_at = known.row, known.folded, known.facts.cancel.asked_at
    own = row.compensates_id is not None
    return Situation(
        state=folded.state,
        task=TaskState.ACTIVE if own else TaskState(task.state),
        cancellation=folded.cancellation,
        in_lease=known.in_lease,
        stopped_at=asked_at if own else task.stopped_at or asked_at,
        since=row.state_since,
        decided_by=folded.decided_by,
        contradictory=folded.contradictory,
        doubled=folded.doubled,
        refusal=known.asked.refusal,
        has_ref=bool(row.ref),
        capability=known.capability,
    )


def _reading(situation: Situation, known: Known, task: Task, *, undone: bool) -> Reading:
    """Its reading, without a next step that this task does not allow or that was taken."""
    reading = wording.read(situation)
    if undone and situation.state is OperationState.SUCCEEDED:
        return replace(reading, next_step="")  # what can be done next is said of the undoing
    ended = known.row.compensates_id is not None and task.state in (TaskState.STOPPED, TaskState.FINISHED)
    if ended and reading.label is Label.IN_PROGRESS:
        return replace(reading, next_step=gettext(sentences.ANSWER_IS_KEPT))  # no stop of this task is to come
    return reading


def _admission(known: Known, task: Task) -> str:
    """An undoing was asked for by a person: its result is no run's."""
    if known.row.compensates_id is not None:
        return ""
    asked, live = known.asked, task.live_run is not None
    return evidence_words.read_admission(known.folded.state, asked.taken_by, asked.kept_from, live=live)


def _progress(known: Known) -> Progress | None:
    """How far the provider says that it is, while it may still go on."""
    told = known.share
    if told is None or known.folded.state not in (OperationState.ACCEPTED, OperationState.UNKNOWN):
        return None
    percent = number_format(told.fraction * 100, decimal_pos=0)
    return Progress(told.fraction, gettext(sentences.PROGRESS) % {"percent": percent}, told.at)


def _link(result: Result | None, ref: str) -> str:
    """The first safe address in what the provider gave back: of the effect, not of the provider's interface."""
    return next((address for address in map(_address, (*_told(result), ref)) if address), "")


def _told(result: Result | None) -> tuple[Any, ...]:
    if result is None or result.claim is not Claim.SUCCEEDED or not result.whole:
        return ()
    if result.form is not Form.JSON:
        return (result.head.strip(),)
    try:
        value = json.loads(result.head)
    except (ValueError, RecursionError):
        return ()
    if isinstance(value, dict):
        return tuple(value.get(name) for name in ("url", "href", "link"))
    return (value,)


def _address(text: Any) -> str:
    """The text where it is an http(s) address and nothing else: a link must not run code or hide where it leads."""
    if not isinstance(text, str) or len(text) > 1000 or not text.isascii() or not text.isprintable() or " " in text:
        return ""
    try:
        parts = urlsplit(text)
    except ValueError:
        return ""
    return text if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc else ""
