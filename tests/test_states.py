"""The vocabulary: each word once, and the groups that rules speak of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest

from agentstop.states import (
    FINAL_CLAIMS,
    FINAL_STATES,
    OPEN_CANCELLATIONS,
    SIGNS_OF_LIFE,
    AttemptFact,
    Cancellation,
    Claim,
    OperationState,
    RunState,
    Source,
    TaskState,
    Verb,
)


@pytest.mark.parametrize("words", [TaskState, RunState, OperationState, Cancellation, Claim, Source, Verb])
def test_a_word_is_written_as_it_is_named_and_spelled_one_way(words: type[StrEnum]) -> None:
    for word in words:
        assert word.value == word.name.lower()
        assert "canceled" not in word.value


def test_every_final_claim_is_a_final_state() -> None:
    assert {OperationState(claim) for claim in FINAL_CLAIMS} == FINAL_STATES


def test_no_claim_is_both_final_and_a_sign_of_life() -> None:
    assert not FINAL_CLAIMS & SIGNS_OF_LIFE


def test_a_cancellation_is_open_while_its_answer_is_still_to_come() -> None:
    closed = {Cancellation.NONE, Cancellation.CONFIRMED, Cancellation.REFUSED, Cancellation.MOOT}
    closed |= {Cancellation.UNDELIVERABLE, Cancellation.UNSUPPORTED}
    assert set(Cancellation) - closed == OPEN_CANCELLATIONS


def test_an_attempt_is_settled_when_its_lease_and_the_settling_time_are_over() -> None:
    lease = datetime(2026, 1, 1, tzinfo=UTC)
    attempt = AttemptFact(1, lease, lease, timedelta(seconds=30), timedelta(days=7))
    assert attempt.settled_at == lease + timedelta(seconds=30)
