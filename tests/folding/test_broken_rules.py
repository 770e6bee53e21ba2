"""The tests of the fold can fail: with any one rule broken, a promise or a named case does not hold."""

from __future__ import annotations

import pytest

from agentstop.folds import evidence, folding
from agentstop.states import AttemptFact
from tests.folding.invariants import OF_EACH_SET, OF_WHAT_FOLLOWS
from tests.folding.scenes import folded, state
from tests.folding.test_invariants import SHAPES, cases, faults
from tests.folding.test_named_cases import CASES

BROKEN = {
    "a failure or cancellation speaks for every attempt": (
        evidence,
        "_denied",
        lambda r, attempts, _: numbers(attempts),
    ),
    "an absence speaks for every attempt": (evidence, "_absent", lambda r, attempts, _: numbers(attempts)),
    "a refused request is nothing": (evidence, "_is_refused", lambda r: False),
    "a sign of life is nothing": (evidence, "_is_sign_of_life", lambda r: False),
    "a read-back replaces nothing": (evidence, "standing", lambda finals, *, several: tuple(finals)),
    "nothing proves an absence": (evidence, "_found_nothing", lambda r: False),
    "a person settles nothing": (folding, "_by_person", lambda *_: None),
    "words without effect decide nothing": (folding, "_if_without_effect", lambda *_: None),
    "signs of life decide nothing": (folding, "_if_alive", lambda *_: None),
    "reports of an intermediary are nothing": (folding, "_reports", lambda *_: []),
    "proofs of every attempt decide nothing": (folding, "_if_closed", lambda *_: None),
}


def numbers(attempts: list[AttemptFact]) -> frozenset[int]:
    return frozenset(attempt.number for attempt in attempts)


def something_fails() -> bool:
    named = (folded(attempts, heard).state != expected for attempts, heard, expected in CASES.values())
    promises = OF_EACH_SET + OF_WHAT_FOLLOWS
    return any(named) or any(any(faults(cases(state, attempts, range(3)), promises)) for attempts in SHAPES)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module, rule, replacement = BROKEN[name]
    monkeypatch.setattr(module, rule, replacement)
    assert something_fails()


def test_nothing_fails_while_no_rule_is_broken() -> None:
    assert not something_fails()
