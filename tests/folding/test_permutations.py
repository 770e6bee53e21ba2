"""R15: order of arrival plays no part. Every permutation of every set of up to four receipts folds to the same.

Up to three: of all kinds in `universe`, for one attempt and for two, each kind heard at a moment of its own, in one
order of time and in the other, so that every pair of kinds is tried both ways round: 12,276 sets, 80,120 folds.
Four: of all kinds too, in one order of time: 8,855 sets for one attempt and 23,751 for two, 815,150 folds in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import combinations, permutations

import pytest

from agentstop.folds.folding import fold
from agentstop.states import AttemptFact, Claim, OperationFacts, OperationState, ReceiptFact
from tests.folding.scenes import at, attempt, facts
from tests.folding.universe import Kind, heard, kinds

NOW = at(100)
ONE = [attempt(1, 1, 1000, 1000)]
TWO = [attempt(1, 1, 5, 6), attempt(2, 7, 8, 9)]


def in_slots(chosen: Sequence[Kind]) -> list[ReceiptFact]:
    return [heard(kind, slot) for slot, kind in enumerate(chosen)]


def sets_of(receipts: Sequence[ReceiptFact], sizes: Sequence[int]) -> Iterator[tuple[ReceiptFact, ...]]:
    for size in sizes:
        yield from combinations(receipts, size)


def first_that_depends_on_order(
    fold_: Callable[[OperationFacts, datetime], object],
    attempts: Sequence[AttemptFact],
    sets: Iterator[tuple[ReceiptFact, ...]],
) -> tuple[ReceiptFact, ...] | None:
    for chosen in sets:
        expected = fold_(facts(attempts, chosen), NOW)
        for order in permutations(chosen):
            if fold_(facts(attempts, order), NOW) != expected:
                return order
    return None


@pytest.mark.parametrize("step", [1, -1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("attempts", [ONE, TWO], ids=["one attempt", "two attempts"])
def test_every_permutation_of_every_set_of_up_to_three_receipts_folds_to_the_same(
    attempts: list[AttemptFact], step: int
) -> None:
    receipts = in_slots(kinds(len(attempts))[::step])
    assert first_that_depends_on_order(fold, attempts, sets_of(receipts, range(4))) is None


@pytest.mark.parametrize("attempts", [ONE, TWO], ids=["one attempt", "two attempts"])
def test_every_permutation_of_every_set_of_four_receipts_folds_to_the_same(attempts: list[AttemptFact]) -> None:
    assert first_that_depends_on_order(fold, attempts, sets_of(in_slots(kinds(len(attempts))), [4])) is None


def test_the_order_of_attempts_plays_no_part() -> None:
    for chosen in sets_of(in_slots(kinds(2)), range(3)):
        assert fold(facts(TWO, chosen), NOW) == fold(facts(TWO[::-1], chosen), NOW), chosen


def test_a_receipt_that_arrives_twice_changes_nothing() -> None:
    for chosen in sets_of(in_slots(kinds(2)), range(3)):
        assert fold(facts(TWO, chosen), NOW) == fold(facts(TWO, chosen * 2), NOW), chosen


def last_to_arrive_decides(facts_: OperationFacts, now: datetime) -> OperationState:
    finals = [r.claim for r in facts_.receipts if r.claim in (Claim.SUCCEEDED, Claim.FAILED, Claim.CANCELLED)]
    return OperationState(finals[-1]) if finals else OperationState.UNKNOWN


def test_a_fold_in_which_the_last_to_arrive_decides_would_be_found_out() -> None:
    sets = sets_of(in_slots(kinds(1)), [2])
    assert first_that_depends_on_order(last_to_arrive_decides, ONE, sets) is not None
