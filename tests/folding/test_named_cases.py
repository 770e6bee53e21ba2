"""Cases of the fold that were argued about, and the shapes of the races P0 to P12 (R14, R16, R20, R24)."""

from __future__ import annotations

import pytest

from agentstop.folds.folding import fold
from agentstop.states import AttemptFact, OperationFacts, OperationState, ReceiptFact
from tests.folding.literal import literal_state
from tests.folding.scenes import answer, at, attempt, facts, folded, lost, person, push, read_back, receipt, unsent

ONE = attempt(1, 1, 3, 4)
TWO = attempt(2, 5, 7, 8)
TWO_BEING_SENT = attempt(2, 5, 99, 100)

CASES: dict[str, tuple[list[AttemptFact], list[ReceiptFact], str]] = {
    "two read-backs: the one asked later decides": (
        [ONE], [read_back("cancelled", 10), read_back("succeeded", 12)], "succeeded",
    ),
    "two overlapping read-backs disagree": (
        [ONE], [read_back("cancelled", 10, 14), read_back("succeeded", 11, 13)], "unknown",
    ),
    "a person settles, then the provider says otherwise": (
        [ONE], [lost(2), person("failed", 10), read_back("succeeded", 12)], "succeeded",
    ),
    "contradictory, then a person settles": (
        [ONE], [push("cancelled", 9), answer("succeeded", 9), person("succeeded", 12)], "succeeded",
    ),
    "a person settles, then a read-back says running": (
        [ONE], [person("failed", 10), read_back("running", 12)], "accepted",
    ),
    "two persons at the same moment exclude each other": (
        [ONE], [lost(2), person("failed", 10), person("succeeded", 10)], "unknown",
    ),
    "a person settled before the last attempt": (
        [ONE, TWO], [lost(2), person("failed", 4), lost(6, 2)], "unknown",
    ),
    "refused on 2, attempt 1 unknown": ([ONE, TWO], [lost(2), answer("refused", 6, 2)], "unknown"),
    "failed on 1, attempt 2 lost": ([ONE, TWO], [answer("failed", 2), lost(6, 2)], "unknown"),
    "failed on 1, attempt 2 being sent": ([ONE, TWO_BEING_SENT], [answer("failed", 2)], "sending"),
    "unsent on 1, attempt 2 being sent": ([ONE, TWO_BEING_SENT], [unsent(2)], "sending"),
    "every attempt refused": ([ONE], [answer("refused", 2)], "failed"),
    "a task server reports it cancelled, the provider had refused it": (
        [ONE], [answer("refused", 2), receipt("cancelled", "intermediary", 9)], "failed",
    ),
    "cancelled on 1, attempt 2 unsent": (
        [ONE, TWO], [answer("accepted", 2, ref="x"), push("cancelled", 4, ref="x"), unsent(6, 2)], "cancelled",
    ),
    "cancelled on 1, attempt 2 refused": (
        [ONE, TWO], [answer("accepted", 2, ref="x"), push("cancelled", 4, ref="x"), answer("refused", 6, 2)], "failed",
    ),
    "replay: attempt 2 returns attempt 1's success": (
        [ONE, TWO], [lost(2), answer("succeeded", 6, 2)], "succeeded",
    ),
    "accepted, then authoritative not found": ([ONE], [answer("accepted", 2), read_back("not_found", 30)], "unknown"),
    "accepted, then a lagging search finds nothing": (
        [ONE], [answer("accepted", 2), read_back("not_found", 30, authoritative=False)], "accepted",
    ),
    "cancelled by the provider, then read back running": (
        [ONE], [push("cancelled", 9), read_back("running", 12)], "unknown",
    ),
    "never sent, and the task server says cancelled": (
        [ONE], [unsent(2), receipt("cancelled", "intermediary", 9)], "not_sent",
    ),
    "never sent, and the task server says failed": (
        [ONE], [unsent(2), receipt("failed", "intermediary", 9)], "not_sent",
    ),
    "never sent, and the task server says succeeded": (
        [ONE], [unsent(2), receipt("succeeded", "intermediary", 9)], "unknown",
    ),
    "not found, and the task server says cancelled": (
        [ONE], [lost(2), read_back("not_found", 10), receipt("cancelled", "intermediary", 12)], "not_sent",
    ),
    "unsent on 1, attempt 2 lost, and the task server says cancelled": (
        [ONE, TWO], [unsent(2), lost(6, 2), receipt("cancelled", "intermediary", 9)], "unknown",
    ),
    "accepted, never sent by its sender's word, and the task server says cancelled": (
        [ONE], [unsent(2), push("accepted", 3), receipt("cancelled", "intermediary", 9)], "unknown",
    ),
    "only the task server says cancelled": ([ONE], [receipt("cancelled", "intermediary", 9)], "unknown"),
    "accepted, then the task server says cancelled": (
        [ONE], [answer("accepted", 2), receipt("cancelled", "intermediary", 9)], "unknown",
    ),
    "not found covers 1, unsent 2": ([ONE, TWO], [read_back("not_found", 4.5), unsent(6, 2)], "not_sent"),
    "not found asked before the settling time was over": ([ONE], [lost(2), read_back("not_found", 3.5)], "unknown"),
    "a search by the reference of 1 finds nothing, attempt 2 lost": (
        [ONE, TWO],
        [answer("accepted", 2, ref="x"), push("failed", 4, ref="x"), lost(6, 2), read_back("not_found", 30, ref="x")],
        "unknown",
    ),
    "an acknowledged cancel alone": ([ONE], [lost(2), receipt("cancelled", "ack", 9)], "unknown"),
    "a failure pushed without a reference, two attempts": (
        [ONE, TWO], [lost(2), lost(6, 2), push("failed", 9)], "unknown",
    ),
    "P2, asleep past its lease": ([ONE], [], "unknown"),
    "P2, the sender saw the stop": ([ONE], [unsent(2)], "not_sent"),
    "P2 to P4, being sent": ([attempt(1, 1, 99)], [], "sending"),
    "P3, looked up: it never arrived": ([ONE], [read_back("not_found", 10)], "not_sent"),
    "P4, looked up by key": ([ONE], [read_back("succeeded", 10)], "succeeded"),
    "P5, accepted with its reference": ([ONE], [answer("accepted", 2, ref="x")], "accepted"),
    "P6, a late success": ([ONE], [answer("succeeded", 40, asked=1)], "succeeded"),
    "P7, the answer was lost for ever": ([ONE], [lost(2)], "unknown"),
    "P11, acknowledged, and completes all the same": (
        [ONE], [answer("accepted", 2), receipt("cancelled", "ack", 9), read_back("succeeded", 12)], "succeeded",
    ),
    "P12, confirmed, then a success": ([ONE], [push("cancelled", 9), answer("succeeded", 10)], "unknown"),
    "P12, and what a later read-back says": (
        [ONE], [push("cancelled", 9), answer("succeeded", 10), read_back("succeeded", 12)], "succeeded",
    ),
}  # fmt: skip

FIRST_RULES_FELL_FOR = {
    "two overlapping read-backs disagree",
    "contradictory, then a person settles",
    "a person settles, then a read-back says running",
    "failed on 1, attempt 2 lost",
    "failed on 1, attempt 2 being sent",
    "unsent on 1, attempt 2 being sent",
    "every attempt refused",
    "accepted, then authoritative not found",
    "cancelled by the provider, then read back running",
    "accepted, then the task server says cancelled",
    "not found covers 1, unsent 2",
}


@pytest.mark.parametrize("name", CASES)
def test_a_named_case_folds_to_the_state_that_was_argued_for(name: str) -> None:
    attempts, receipts, expected = CASES[name]
    assert folded(attempts, receipts).state == expected


@pytest.mark.parametrize("name", sorted(FIRST_RULES_FELL_FOR))
def test_the_named_cases_tell_the_rules_from_their_first_version(name: str) -> None:
    attempts, receipts, expected = CASES[name]
    assert literal_state(facts(attempts, receipts), at(50)) != expected


def test_p0_an_operation_that_never_reached_the_gate_is_prepared() -> None:
    assert fold(OperationFacts(), at(50)).state is OperationState.PREPARED


def test_an_operation_that_the_gate_refused_is_not_sent() -> None:
    assert fold(OperationFacts(refused=True), at(50)).state is OperationState.NOT_SENT


@pytest.mark.parametrize(
    ("compensated", "before", "after", "expected"),
    [
        (20, [answer("succeeded", 2)], read_back("not_found", 30), "succeeded"),
        (20, [answer("succeeded", 2)], read_back("cancelled", 30), "succeeded"),
        (20, [lost(2), person("succeeded", 15)], read_back("not_found", 30), "succeeded"),
        (20, [lost(2), person("succeeded", 15)], read_back("cancelled", 30), "succeeded"),
        (20, [answer("succeeded", 2)], read_back("cancelled", 19, 30), "succeeded"),
    ],
)
def test_what_was_undone_never_reads_as_never_done(
    compensated: float, before: list[ReceiptFact], after: ReceiptFact, expected: str
) -> None:
    assert fold(facts([ONE], [*before, after], compensated=compensated), at(50)).state == expected


def test_words_that_exclude_each_other_are_flagged_and_a_person_does_not_take_the_flag_away() -> None:
    words = [push("cancelled", 9), answer("succeeded", 10)]
    assert folded([ONE], words).contradictory
    settled = folded([ONE], [*words, person("succeeded", 12)])
    assert (settled.state, settled.contradictory) == ("succeeded", True)
    assert not folded([ONE], [*words, read_back("succeeded", 12)]).contradictory


@pytest.mark.parametrize(
    ("receipts", "doubled"),
    [
        ([answer("accepted", 2, ref="x"), answer("accepted", 6, 2, ref="y")], True),
        ([answer("succeeded", 2, ref="x"), read_back("succeeded", 9, ref="y")], True),
        ([answer("accepted", 2, ref="x"), answer("accepted", 6, 2, ref="x")], False),
        ([answer("failed", 2, ref="x"), answer("accepted", 6, 2, ref="y")], False),
        ([answer("accepted", 2, ref="x"), receipt("running", "intermediary", 6, ref="y")], False),
    ],
)
def test_different_references_of_one_key_are_flagged_as_perhaps_done_twice(
    receipts: list[ReceiptFact], doubled: bool
) -> None:
    assert folded([ONE, TWO], receipts).doubled is doubled


def test_the_deciding_receipts_of_a_success_hold_the_earlier_answer_that_a_look_up_confirmed() -> None:
    early, late = answer("succeeded", 2), read_back("succeeded", 30)
    assert folded([ONE], [late, early, receipt("cancelled", "ack", 9)]).decided_by == (early, late)


def test_the_deciding_receipts_of_an_unknown_outcome_tell_why_it_is_unknown() -> None:
    sign, gone, gave_up = answer("accepted", 2), read_back("not_found", 30), lost(2)
    assert folded([ONE], [sign, gone]).decided_by == (sign, gone)
    assert folded([ONE], [gave_up]).decided_by == (gave_up,)
    assert folded([ONE], []).decided_by == ()
