"""What became of a question is folded from its facts, whoever looks and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from agentstop.folds.question_states import QuestionFacts, QuestionState, fold_question
from agentstop.states import RunState
from agentstop.words import question_sentences as sentences

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def at(second: float | None) -> datetime | None:
    return None if second is None else START + timedelta(seconds=second)


def state(now: float, **moments: float) -> str:
    facts = QuestionFacts(**{name: at(moment) for name, moment in moments.items()})
    return fold_question(facts, at(now) or START)


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ({}, "pending"),
        ({"until": 20}, "pending"),
        ({"until": 9}, "expired"),
        ({"until": 9, "answered_at": 8}, "answered"),
        ({"until": 9, "over_at": 8}, "closed"),
        ({"until": 8, "over_at": 9}, "expired"),
        ({"answered_at": 1}, "answered"),
        ({"answered_at": 1, "over_at": 2}, "closed"),
        ({"answered_at": 1, "applied_at": 2}, "applied"),
        ({"answered_at": 1, "applied_at": 2, "over_at": 3}, "applied"),
        ({"declined_at": 1}, "declined"),
        ({"declined_at": 1, "over_at": 2}, "declined"),
        ({"over_at": 1}, "closed"),
    ],
)
def test_each_state_has_its_facts(moments: dict[str, float], expected: str) -> None:
    assert state(10, **moments) == expected


def test_time_alone_changes_what_is_pending_at_its_end_and_nothing_else() -> None:
    names = ("until", "answered_at", "declined_at", "applied_at", "over_at")
    for values in product((None, 1.0, 2.0), repeat=len(names)):
        moments = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        before, after = state(1.5, **moments), state(1000, **moments)
        if before != after:
            assert (before, after, moments["until"]) == ("pending", "expired", 2.0)


def test_an_end_of_the_run_leaves_nothing_open() -> None:
    names = ("until", "answered_at", "declined_at", "applied_at")
    for values in product((None, 1.0), repeat=len(names)):
        moments = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        assert state(10, over_at=5, **moments) not in ("pending", "answered")


def test_every_state_has_its_words() -> None:
    assert set(sentences.STATES) | {QuestionState.CLOSED} == set(sentences.TONES) == set(QuestionState)
    assert set(sentences.CLOSED) == set(RunState) - {RunState.LIVE}
    said = [*sentences.STATES.values(), *sentences.CLOSED.values(), *sentences.NOT_TAKEN.values()]
    said += [text for name, text in vars(sentences).items() if name.isupper() and isinstance(text, str)]
    assert [text for text in said if not text.endswith(".") or "%" in text.replace("%(who)s", "")] == []
