"""R14, R15: a label is never false of what really happened, in 20,000 random histories of a truthful provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from agentstop.folds import evidence
from agentstop.states import OperationState
from tests.folding.histories import History, lie, random_history
from tests.folding.literal import literal_state
from tests.folding.scenes import StateFold, at, state

SEED = 7
HISTORIES = 20_000


def histories(seed: int, count: int) -> Iterator[tuple[int, History, float]]:
    """Each history at a moment in its midst and at its end, with the number that finds it again."""
    random = Random(seed)  # noqa: S311 - chance, not secrecy: the same histories in every run
    for number in range(count):
        history = random_history(random)
        moment = random.uniform(2, 22)
        if not history.is_doubled:
            yield number, history, moment
            yield number, history, 30.0


def lies(fold: StateFold, count: int = HISTORIES) -> Iterator[str]:
    for number, history, now in histories(SEED, count):
        why = lie(fold(history.facts_at(now), at(now)), history, now)
        if why:
            yield f"{why} (history {number} of seed {SEED} at {now})"


def test_no_label_is_false_of_what_really_happened() -> None:
    assert list(lies(state)) == []


def test_the_histories_reach_every_state_that_the_provider_can_bring_about() -> None:
    reached = Counter(state(history.facts_at(now), at(now)) for _, history, now in histories(SEED, 1_000))
    assert reached.keys() == set(OperationState) - {OperationState.PREPARED}
    assert min(reached.values()) >= 20, reached


def test_the_first_version_of_the_rules_lies() -> None:
    assert len(list(lies(literal_state, 5_000))) > 20


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("_denied", lambda receipt, attempts, answers: frozenset(a.number for a in attempts)),
        ("_absent", lambda receipt, attempts, answers: frozenset(a.number for a in attempts)),
        ("_over_at", lambda attempt, answers: attempt.passed_at),
    ],
)
def test_a_receipt_that_speaks_for_too_much_makes_a_label_lie(
    monkeypatch: pytest.MonkeyPatch, rule: str, broken: object
) -> None:
    monkeypatch.setattr(evidence, rule, broken)
    assert next(lies(state), "")
