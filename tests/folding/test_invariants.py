"""The promises of `invariants`, over every sequence of up to three receipts out of all kinds (75,960 sequences).

R14, R16, R22, R23.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from agentstop.states import AttemptFact, OperationState
from tests.folding.invariants import OF_EACH_SET, OF_WHAT_FOLLOWS, Case, Promise
from tests.folding.literal import literal_state
from tests.folding.scenes import StateFold, state
from tests.folding.universe import attempts_of_each_shape, heard, kinds

SHAPES = list(attempts_of_each_shape())
NAMES = ["one attempt, over", "one attempt, alive", "two attempts, over", "two attempts, the last alive"]


def cases(fold: StateFold, attempts: list[AttemptFact], lengths: Sequence[int]) -> Iterator[Case]:
    for length in lengths:
        for chosen in product(kinds(len(attempts)), repeat=length):
            yield Case(fold, attempts, [heard(kind, slot) for slot, kind in enumerate(chosen)])


def faults(found: Iterator[Case], promises: list[Promise]) -> Iterator[str]:
    for case in found:
        given = case.state_with()
        for promise in promises:
            yield from promise(case, given)


@pytest.mark.parametrize("attempts", SHAPES, ids=NAMES)
def test_no_sequence_of_up_to_three_receipts_breaks_a_promise(attempts: list[AttemptFact]) -> None:
    assert Counter(faults(cases(state, attempts, range(4)), OF_EACH_SET)) == {}


@pytest.mark.parametrize("attempts", SHAPES, ids=NAMES)
def test_nothing_that_may_be_heard_after_two_receipts_breaks_a_promise(attempts: list[AttemptFact]) -> None:
    assert Counter(faults(cases(state, attempts, range(3)), OF_WHAT_FOLLOWS)) == {}


def test_every_state_of_an_operation_that_passed_the_gate_is_reached() -> None:
    reached = {case.state_with() for attempts in SHAPES for case in cases(state, attempts, range(2))}
    assert reached == set(OperationState) - {OperationState.PREPARED}


def test_the_first_version_of_the_rules_breaks_the_promises_that_led_to_the_present_ones() -> None:
    found: set[str] = set()
    for attempts in SHAPES:
        found |= set(faults(cases(literal_state, attempts, range(3)), OF_EACH_SET + OF_WHAT_FOLLOWS))
    assert found >= {
        "failed while an attempt is unaccounted for",
        "failed though read back running afterwards",
        "cancelled though read back running afterwards",
        "accepted though the provider has forgotten it",
        "a person cannot settle it",
        "a person overrules the provider",
        "every attempt refused, and not failed",
    }
