"""References: which jobs an operation has made, which may go on, which one stands for it, in any order of arrival.

R14, R16.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from agentstop.folds.folding import fold
from agentstop.states import (
    CancelAnswer,
    CancelFacts,
    Cancellation,
    CancelTry,
    Claim,
    Folded,
    OperationState,
    ReceiptFact,
)
from tests.folding.scenes import answer, at, attempt, facts, lost, push, read_back, receipt

ONE, TWO = attempt(1, 1, 3, 4), attempt(2, 5, 7, 8)
LATE = 20.0  # when the first attempt's answer comes, long after that of the second

CASES: dict[str, tuple[list[ReceiptFact], str, dict[str, str | None]]] = {
    "no reference": ([lost(2), answer("accepted", 6, 2)], "", {}),
    "the same from both attempts": (
        [answer("accepted", LATE, 1, ref="x"), answer("accepted", 6, 2, ref="x")], "x", {"x": None},
    ),
    "late, of the older attempt": (
        [answer("accepted", 6, 2, ref="y"), answer("accepted", LATE, 1, ref="x")], "y", {"y": None, "x": None},
    ),
    "the newer is over": (
        [answer("failed", 6, 2, ref="y"), answer("accepted", LATE, 1, ref="x")], "x", {"y": "failed", "x": None},
    ),
    "the older was done": (
        [answer("accepted", 6, 2, ref="y"), answer("succeeded", LATE, 1, ref="x")],
        "x", {"y": None, "x": "succeeded"},
    ),
    "both are over": (
        [answer("failed", 6, 2, ref="y"), answer("failed", LATE, 1, ref="x")], "y", {"y": "failed", "x": "failed"},
    ),
    "its own answer without the reference": (
        [answer("accepted", 6, 2, ref="y"), answer("accepted", 2, 1, ref="x"), answer("failed", LATE, 1)],
        "y", {"y": None, "x": "failed"},
    ),
    "a denial of all attempts": (
        [answer("accepted", 6, 2, ref="y"), answer("accepted", 2, 1, ref="x"), read_back("failed", 30)],
        "y", {"y": "failed", "x": "failed"},
    ),
    "a denial by the other reference": (
        [answer("accepted", 6, 2, ref="y"), answer("accepted", 2, 1, ref="x"), read_back("failed", 30, ref="y")],
        "x", {"y": "failed", "x": None},
    ),
    "told by a push, before and after the second": (
        [push("accepted", 2, ref="x"), push("accepted", 6, ref="y")], "y", {"y": None, "x": None},
    ),
    "told by a push, late: the one that an attempt returned is taken for newer": (
        [answer("accepted", 6, 2, ref="y"), push("accepted", LATE, ref="x")], "y", {"y": None, "x": None},
    ),
    "an intermediary names it otherwise": (
        [answer("accepted", 2, 1, ref="x"), receipt("running", "intermediary", 9, ref="t")], "x", {"x": None},
    ),
    "an intermediary alone": ([receipt("running", "intermediary", 9, ref="t")], "t", {"t": None}),
    "a refusal's own reference": ([receipt("refused", "provider", 2, attempt=1, ref="error-9")], "", {}),
    "seen running after its end": (
        [answer("failed", 2, 1, ref="x"), read_back("running", 30, ref="x")], "x", {"x": None},
    ),
    "the provider contradicts itself": (
        [answer("succeeded", 2, 1, ref="x"), push("cancelled", 3, ref="x")], "x", {"x": None},
    ),
    "and a later look-up decides": (
        [answer("succeeded", 2, 1, ref="x"), push("cancelled", 3, ref="x"), read_back("cancelled", 30, ref="x")],
        "x", {"x": "cancelled"},
    ),
}  # fmt: skip


def folded(receipts: list[ReceiptFact], cancel: CancelFacts = CancelFacts(), now: float = 50) -> Folded:
    return fold(facts([ONE, TWO], receipts, cancel=cancel), at(now))


@pytest.mark.parametrize("name", CASES)
def test_jobs_are_known_by_their_references_in_any_order_of_arrival(name: str) -> None:
    receipts, ref, jobs = CASES[name]
    for order in permutations(receipts):
        found = folded(list(order))
        assert (found.ref, {job.ref: job.said for job in found.jobs}) == (ref, jobs)
        assert found.jobs == folded(receipts).jobs


@pytest.mark.parametrize(
    ("older", "another_open", "doubled"),
    [("accepted", True, True), ("succeeded", False, True), ("failed", False, False)],
)
def test_what_has_succeeded_may_still_have_another_job_open(older: str, another_open: bool, doubled: bool) -> None:
    found = folded([answer("succeeded", 6, 2, ref="y"), answer(older, LATE, 1, ref="x")])
    assert (found.state, found.ref) == (OperationState.SUCCEEDED, "y")
    assert (found.another_open, found.doubled) == (another_open, doubled)


def test_a_success_that_names_no_job_leaves_no_other_open() -> None:
    assert not folded([push("accepted", 6, ref="y"), answer("succeeded", LATE, 1)]).another_open


BOTH = [answer("accepted", 6, 2, ref="y"), answer("accepted", LATE, 1, ref="x")]


def asked(
    *tries: tuple[int, str], answers: tuple[tuple[Claim, int], ...] = (), needs_ref: bool = True, until: float = 100
) -> CancelFacts:
    return CancelFacts(
        at(10), at(until), needs_ref=needs_ref,
        tries=tuple(CancelTry(number, at(25), ref) for number, ref in tries),
        answers=tuple(CancelAnswer(claim, number) for claim, number in answers),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cancel", "word", "due", "tries"),
    [
        (asked(), Cancellation.REQUESTED, ("y", "x"), 0),
        (asked((1, "y")), Cancellation.REQUESTED, ("y", "x"), 0),
        (asked((1, "y"), (2, "x")), Cancellation.SENT, ("y", "x"), 1),
        (asked((1, "y"), answers=((Claim.CANCELLED, 1),)), Cancellation.REQUESTED, ("x",), 0),
        (
            asked((1, "y"), (2, "x"), answers=((Claim.CANCELLED, 1), (Claim.REFUSED, 2))),
            Cancellation.ACKNOWLEDGED, (), 0,
        ),
        (
            asked((1, "y"), (2, "x"), answers=((Claim.REFUSED, 1), (Claim.REFUSED, 2))),
            Cancellation.REFUSED, (), 0,
        ),
        (
            asked((1, "y"), (2, "x"), answers=((Claim.REFUSED, 1), (Claim.FAILED, 2))),
            Cancellation.REQUESTED, ("x",), 1,
        ),
        (asked((1, ""), answers=((Claim.CANCELLED, 1),)), Cancellation.ACKNOWLEDGED, (), 0),
        (asked((1, "y"), answers=((Claim.REFUSED, 1),), until=30), Cancellation.UNDELIVERABLE, (), 0),
    ],
)  # fmt: skip
def test_each_job_that_may_go_on_is_asked_to_be_given_up(
    cancel: CancelFacts, word: Cancellation, due: tuple[str, ...], tries: int
) -> None:
    found = folded(BOTH, cancel)
    assert (found.cancellation, found.cancel_due, found.cancel_tries) == (word, due, tries)


def test_a_request_that_is_on_its_way_is_not_sent_beside_itself() -> None:
    found = folded(BOTH, asked((1, "y")), now=22)
    assert (found.cancellation, found.cancel_due) == (Cancellation.REQUESTED, ("x",))


@pytest.mark.parametrize(("needs_ref", "due"), [(True, ()), (False, ("",))])
def test_where_the_known_job_is_over_the_request_is_about_the_one_that_is_not_known(
    needs_ref: bool, due: tuple[str, ...]
) -> None:
    """The second attempt's answer was lost: to ask for the first job's end would be asking for nothing."""
    receipts = [answer("failed", 2, 1, ref="x"), lost(6, 2)]
    found = folded(receipts, asked((1, "x"), answers=((Claim.REFUSED, 1),), needs_ref=needs_ref))
    assert (found.state, found.cancel_due) == (OperationState.UNKNOWN, due)
    assert found.cancellation is (Cancellation.WAITING if needs_ref else Cancellation.REQUESTED)


def test_a_job_that_goes_on_beside_a_success_is_still_to_be_cancelled() -> None:
    receipts = [answer("succeeded", 6, 2, ref="y"), answer("accepted", LATE, 1, ref="x")]
    found = folded(receipts, asked())
    assert (found.state, found.cancellation, found.cancel_due) == (
        OperationState.SUCCEEDED,
        Cancellation.REQUESTED,
        ("x",),
    )
    over = [*receipts, push("cancelled", 30, ref="x")]
    assert folded(over, asked()).cancellation is Cancellation.MOOT
