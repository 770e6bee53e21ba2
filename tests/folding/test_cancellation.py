"""How far cancelling got: a fold of its own, over what was asked, tried and answered (R13, R14, R16)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest

from agentstop.folds.cancellation import fold_cancellation
from agentstop.folds.folding import fold
from agentstop.states import (
    FINAL_STATES,
    OPEN_CANCELLATIONS,
    CancelAnswer,
    CancelFacts,
    Cancellation,
    CancelTry,
    Claim,
    OperationState,
)
from tests.folding.scenes import answer, at, attempt, facts, push, read_back, receipt

ASKED = at(10)
UNTIL = at(100)
FIRST, SECOND = CancelTry(1, at(20)), CancelTry(2, at(60))
ANSWERS = [
    CancelAnswer(claim, number)
    for claim in (Claim.UNSENT, Claim.FAILED, Claim.LOST, Claim.CANCELLED, Claim.REFUSED)
    for number in (1, 2)
]
SENT = [attempt(1, 1, 3)]


def cancellation(
    state: OperationState = OperationState.ACCEPTED,
    *,
    tries: tuple[CancelTry, ...] = (),
    answers: tuple[CancelAnswer, ...] = (),
    possible: bool = True,
    needs_ref: bool = False,
    has_ref: bool = False,
    now: float = 50,
) -> Cancellation:
    cancel = CancelFacts(ASKED, UNTIL, possible, needs_ref, tries, answers)
    return fold_cancellation(cancel, state, refs=("job-7",) if has_ref else (), now=at(now)).word


def test_without_anybody_asking_there_is_no_cancellation_in_any_state() -> None:
    for state in OperationState:
        assert fold_cancellation(CancelFacts(), state, refs=("job-7",), now=at(50)).word is Cancellation.NONE


def test_only_a_cancelled_operation_confirms_it() -> None:
    assert cancellation(OperationState.CANCELLED) is Cancellation.CONFIRMED
    for state in (FINAL_STATES - {OperationState.CANCELLED}) | {OperationState.PREPARED, OperationState.NOT_SENT}:
        assert cancellation(state) is Cancellation.MOOT


@pytest.mark.parametrize("state", [OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN])
def test_a_provider_that_never_cancels_is_said_so(state: OperationState) -> None:
    assert cancellation(state, possible=False) is Cancellation.UNSUPPORTED


def test_a_cancel_that_needs_a_reference_waits_for_it_until_the_deadline_and_is_due_when_it_comes() -> None:
    assert cancellation(needs_ref=True, now=50) is Cancellation.WAITING
    assert cancellation(needs_ref=True, has_ref=True, now=50) is Cancellation.REQUESTED
    assert cancellation(needs_ref=True, now=500) is Cancellation.UNDELIVERABLE
    assert cancellation(needs_ref=True, has_ref=True, now=500) is Cancellation.UNDELIVERABLE


def test_any_receipt_with_a_reference_makes_the_waiting_cancel_due() -> None:
    asked = CancelFacts(ASKED, UNTIL, needs_ref=True)
    assert fold(facts(SENT, cancel=asked), at(50)).cancellation is Cancellation.WAITING
    late = answer("accepted", 40, ref="job-7")
    assert fold(facts(SENT, [late], cancel=asked), at(50)).cancellation is Cancellation.REQUESTED


def test_an_acknowledgement_is_kept_whatever_a_later_try_brings() -> None:
    acknowledged = CancelAnswer(Claim.CANCELLED, 1)
    assert cancellation(tries=(FIRST,), answers=(acknowledged,)) is Cancellation.ACKNOWLEDGED
    later = CancelAnswer(Claim.REFUSED, 2)
    assert cancellation(tries=(FIRST, SECOND), answers=(acknowledged, later)) is Cancellation.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("heard", "before", "after"),
    [
        (Claim.REFUSED, Cancellation.REFUSED, Cancellation.REFUSED),
        (Claim.LOST, Cancellation.SENT, Cancellation.SENT),
        (Claim.UNSENT, Cancellation.REQUESTED, Cancellation.UNDELIVERABLE),
        (Claim.FAILED, Cancellation.REQUESTED, Cancellation.UNDELIVERABLE),
    ],
)
def test_the_last_try_decides_before_and_after_the_deadline(
    heard: Claim, before: Cancellation, after: Cancellation
) -> None:
    answers = (CancelAnswer(Claim.LOST, 1), CancelAnswer(heard, 2))
    assert cancellation(tries=(FIRST, SECOND), answers=answers, now=70) is before
    assert cancellation(tries=(FIRST, SECOND), answers=answers, now=100) is after


@pytest.mark.parametrize("now", [15, 50, 500])
def test_a_try_that_nothing_was_heard_of_may_have_arrived(now: float) -> None:
    assert cancellation(tries=(FIRST,), now=now) is Cancellation.SENT


def test_without_a_deadline_a_failed_try_stays_to_be_repeated() -> None:
    cancel = CancelFacts(ASKED, tries=(FIRST,), answers=(CancelAnswer(Claim.UNSENT, 1),))
    asked = fold_cancellation(cancel, OperationState.ACCEPTED, refs=("job-7",), now=at(9e6))
    assert (asked.word, asked.due_at, asked.due) == (Cancellation.REQUESTED, None, ("job-7",))


def inputs() -> Iterator[tuple[OperationState, dict[str, bool], tuple[CancelTry, ...], float]]:
    flags = [
        dict(zip(("possible", "needs_ref", "has_ref"), on, strict=True)) for on in product([False, True], repeat=3)
    ]
    tries: list[tuple[CancelTry, ...]] = [(), (FIRST,), (FIRST, SECOND)]
    yield from product(OperationState, flags, tries, (5.0, 50.0, 500.0))


def test_every_order_of_every_set_of_up_to_three_answers_gives_the_same_and_all_ten_are_reached() -> None:
    reached = {Cancellation.NONE}
    for state, flags, tries, now in inputs():
        for size in range(4 if tries else 1):
            for answers in combinations(ANSWERS, size):
                found = {
                    cancellation(state, tries=tries, answers=order, now=now, **flags) for order in permutations(answers)
                }
                assert len(found) == 1, (state, flags, tries, now, answers)
                reached |= found
                acknowledged = any(heard.claim is Claim.CANCELLED for heard in answers)
                assert acknowledged or Cancellation.ACKNOWLEDGED not in found
                assert (found == {Cancellation.CONFIRMED}) == (state is OperationState.CANCELLED)
                assert state not in FINAL_STATES or not found & OPEN_CANCELLATIONS
    assert reached == set(Cancellation)


def test_p11_an_acknowledgement_never_makes_a_state() -> None:
    asked = CancelFacts(ASKED, UNTIL, tries=(FIRST,), answers=(CancelAnswer(Claim.CANCELLED, 1),))
    accepted = [answer("accepted", 2), receipt("cancelled", "ack", 15)]
    now = fold(facts(SENT, accepted, cancel=asked), at(50))
    assert (now.state, now.cancellation) == (OperationState.ACCEPTED, Cancellation.ACKNOWLEDGED)
    done = fold(facts(SENT, [*accepted, read_back("succeeded", 40)], cancel=asked), at(50))
    assert (done.state, done.cancellation) == (OperationState.SUCCEEDED, Cancellation.MOOT)


def test_p12_a_confirmed_cancel_is_open_again_when_a_success_contradicts_it() -> None:
    asked = CancelFacts(ASKED, UNTIL, tries=(FIRST,), answers=(CancelAnswer(Claim.CANCELLED, 1),))
    confirmed = push("cancelled", 30)
    assert fold(facts(SENT, [confirmed], cancel=asked), at(50)).cancellation is Cancellation.CONFIRMED
    contradicted = fold(facts(SENT, [confirmed, answer("succeeded", 40)], cancel=asked), at(50))
    assert (contradicted.state, contradicted.cancellation) == (OperationState.UNKNOWN, Cancellation.ACKNOWLEDGED)
    assert contradicted.contradictory
