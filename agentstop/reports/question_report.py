"""What is told of one question, in the active language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from agentstop.accounts.account import Account
from agentstop.folds.question_states import Kind, QuestionState
from agentstop.question_facts import Asked
from agentstop.reports.remedies import name_of
from agentstop.states import RunState
from agentstop.words import question_sentences as sentences
from agentstop.words.agent_wording import AgentLine
from agentstop.words.evidence_words import ERASED
from agentstop.words.sentences import A_PERSON, Tone


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """What is told of one question."""

    id: int
    kind: Kind
    text: str
    choices: tuple[str, ...]
    connector: str
    action: str
    details: str
    cut: bool  # only the beginning of the details is known
    operation: int | None
    state: QuestionState
    tone: Tone
    said: str  # what became of it
    asked_at: datetime
    until: datetime | None
    by: str  # who answered or declined
    at: datetime | None
    answer: str
    reason: str  # why it was declined

    @property
    def is_open(self) -> bool:
        return self.state is QuestionState.PENDING


def tell(asked: Asked) -> QuestionReport:
    """The report of a question."""
    row, reply = asked.row, asked.reply
    return QuestionReport(
        id=row.pk,
        kind=Kind(row.kind),
        text=row.text or gettext(ERASED),
        choices=tuple(row.choices),
        connector=row.connector,
        action=row.action,
        details=row.details,
        cut=row.cut,
        operation=row.operation_id,
        state=asked.state,
        tone=sentences.TONES[asked.state],
        said=gettext(_said(asked)),
        asked_at=row.asked_at,
        until=row.until,
        by=(name_of(reply.by) or gettext(A_PERSON)) if reply is not None else "",
        at=reply.at if reply is not None else None,
        answer=asked.answer,
        reason=reply.reason if reply is not None else "",
    )


def summarise(questions: Sequence[QuestionReport]) -> Iterator[str]:
    """How many wait, where any does."""
    waiting = sum(question.is_open for question in questions)
    if waiting:
        yield str(sentences.OPEN % {"count": waiting})


def asked_about(operation: int, questions: Iterable[QuestionReport]) -> bool:
    """Whether this operation waits for a person to approve it."""
    return any(question.is_open and question.operation == operation for question in questions)


def read_agent(line: AgentLine, found: Account) -> AgentLine:
    """The line of an agent that has asked something: it waits, which is not the same as running or silence."""
    if not any(asked.state is QuestionState.PENDING for asked in found.questions):
        return line
    text, tone = (sentences.AGENT_SILENT, Tone.UNSURE) if found.silent else (sentences.AGENT_WAITS, Tone.NOTICE)
    return AgentLine(gettext(text), tone, line.since)


def _said(asked: Asked) -> str:
    if asked.state is QuestionState.CLOSED:
        return sentences.CLOSED[asked.ended or RunState.STOPPED]
    return sentences.STATES[asked.state]
