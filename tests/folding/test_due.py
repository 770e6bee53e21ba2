"""`due_at`: until that moment time alone changes nothing, and without one it never does (R22)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from agentstop.folds.folding import fold
from agentstop.states import (
    OPEN_STATES,
    CancelAnswer,
    CancelFacts,
    Cancellation,
    CancelTry,
    Claim,
    Folded,
    OperationFacts,
    OperationState,
)
from tests.folding.scenes import answer, at, attempt, facts, folded, lost, person, read_back, state
from tests.folding.test_histories import SEED, histories
from tests.folding.test_invariants import SHAPES, cases

A_MOMENT = timedelta(microseconds=1)
YEARS = timedelta(days=3650)


def said(folded_: Folded) -> tuple[OperationState, Cancellation]:
    return folded_.state, folded_.cancellation


def moments_until_due(facts_: OperationFacts, now: datetime) -> Iterator[tuple[datetime, Folded]]:
    """Moments between now and the due moment at which nothing may have changed."""
    due_at = fold(facts_, now).due_at
    last = now + YEARS if due_at is None else due_at - A_MOMENT
    for moment in (now, now + (last - now) / 2, last):
        yield moment, fold(facts_, moment)


def check_nothing_changes_until_due(facts_: OperationFacts, now: datetime) -> None:
    first = fold(facts_, now)
    for moment, then in moments_until_due(facts_, now):
        assert then == first, moment
    assert first.due_at is None or first.due_at > now
    if first.due_at is not None:
        assert said(fold(facts_, first.due_at)) != said(first)


def test_nothing_changes_before_it_is_due_in_any_set_of_two_receipts() -> None:
    for attempts in SHAPES:
        for case in cases(state, attempts, range(3)):
            check_nothing_changes_until_due(facts(case.attempts, case.receipts), at(20))


def test_nothing_changes_before_it_is_due_in_random_histories() -> None:
    for number, history, now in histories(SEED, 3_000):
        try:
            check_nothing_changes_until_due(history.facts_at(now), at(now))
        except AssertionError as error:
            raise AssertionError(f"history {number} of seed {SEED} at {now}") from error


def test_a_silent_attempt_is_due_when_its_lease_ends_and_is_unknown_from_then_on() -> None:
    attempts = [attempt(1, 1, 60)]
    assert folded(attempts, [], now=59).due_at == at(60)
    assert folded(attempts, [], now=60).state is OperationState.UNKNOWN


def test_of_two_silent_attempts_the_longer_lease_counts() -> None:
    assert folded([attempt(1, 1, 60), attempt(2, 5, 90)], [], now=50).due_at == at(90)


def test_an_accepted_operation_is_due_when_its_last_sign_of_life_has_reached_the_maximum_age() -> None:
    attempts = [attempt(1, 1, 3, max_age=30)]
    signs = [answer("accepted", 2), read_back("running", 9, 10)]
    assert folded(attempts, signs, now=20).due_at == at(40)
    assert folded(attempts, signs, now=40).state is OperationState.UNKNOWN


def test_a_state_that_a_person_settled_is_never_due() -> None:
    assert (
        folded([attempt(1, 1, 3, max_age=30)], [answer("accepted", 2), person("succeeded", 9)], now=20).due_at is None
    )


@pytest.mark.parametrize("heard", [Claim.UNSENT, Claim.FAILED])
def test_a_cancel_request_that_did_not_arrive_is_due_at_its_deadline(heard: Claim) -> None:
    cancel = CancelFacts(at(10), until=at(30), tries=(CancelTry(1, at(15)),), answers=(CancelAnswer(heard, 1),))
    asked = facts([attempt(1, 1, 3)], [lost(2)], cancel=cancel)
    assert fold(asked, at(20)).due_at == at(30)
    check_nothing_changes_until_due(asked, at(20))


def test_the_earlier_of_state_and_cancellation_is_due_first() -> None:
    cancel = CancelFacts(at(10), until=at(30), tries=(CancelTry(1, at(15)),), answers=(CancelAnswer(Claim.UNSENT, 1),))
    assert fold(facts([attempt(1, 1, 25)], cancel=cancel), at(20)).due_at == at(25)
    assert fold(facts([attempt(1, 1, 90)], cancel=cancel), at(20)).due_at == at(30)


def by_time_alone(facts_: OperationFacts, now: datetime) -> set[tuple[OperationState, OperationState]]:
    """From which state to which one time leads, if nothing is heard any more; never without its being due."""
    first, last = fold(facts_, now), fold(facts_, now + YEARS)
    assert first.state is last.state or first.due_at is not None
    return {(first.state, last.state)} if first.state is not last.state else set()


def test_time_alone_changes_only_what_is_under_way_and_opens_nothing() -> None:
    """Lists rest on it: by stored states no open operation is missed, and no unknown one where what is due counts."""
    seen: set[tuple[OperationState, OperationState]] = set()
    for attempts in SHAPES:
        for case in cases(state, attempts, range(3)):
            for moment in (12.0, 20.0):
                seen |= by_time_alone(facts(case.attempts, case.receipts), at(moment))
    for _, history, now in histories(SEED, 3_000):
        seen |= by_time_alone(history.facts_at(now), at(now))
    under_way = {OperationState.SENDING, OperationState.ACCEPTED}
    assert {before for before, _ in seen} == under_way
    assert {after for _, after in seen} & OPEN_STATES == {OperationState.UNKNOWN}
