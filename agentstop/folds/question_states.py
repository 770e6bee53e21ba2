"""What became of a question to a person, folded from its facts. Pure.

A question lives no longer than its run: what ends the run closes it in the same commit, without a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """What is asked for."""

    APPROVE = "approve"  # yes or no
    ANSWER = "answer"  # a text, or one of the choices


class QuestionState(StrEnum):
    PENDING = "pending"  # nobody has answered
    ANSWERED = "answered"  # saved; the run has not taken it
    APPLIED = "applied"  # the run has taken it
    DECLINED = "declined"
    CLOSED = "closed"  # its run was over before it had taken an answer
    EXPIRED = "expired"  # nobody has answered in time


@dataclass(frozen=True, slots=True)
class QuestionFacts:
    """All that a question's state is folded from. Times are the database's; None: it has not happened."""

    until: datetime | None = None  # when it expires
    answered_at: datetime | None = None
    declined_at: datetime | None = None
    applied_at: datetime | None = None
    over_at: datetime | None = None  # the end of the run that has asked


def fold_question(facts: QuestionFacts, now: datetime) -> QuestionState:
    """What the facts say at this moment; of a pending question, `until` is when time alone changes it."""
    if facts.applied_at is not None:
        return QuestionState.APPLIED
    if facts.declined_at is not None:
        return QuestionState.DECLINED
    if facts.answered_at is None and facts.until is not None and facts.until <= (facts.over_at or now):
        return QuestionState.EXPIRED
    if facts.over_at is not None:
        return QuestionState.CLOSED
    return QuestionState.PENDING if facts.answered_at is None else QuestionState.ANSWERED
