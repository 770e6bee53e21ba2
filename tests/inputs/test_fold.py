"""The fold of an input, in every order of its facts up to a length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from agentstop.folds.input_states import RELEASABLE, WITHDRAWABLE, Became, InputFact, InputState, Sent, fold_input

B = Became
ONE, TWO = InputFact(B.TAKEN, 1), InputFact(B.TAKEN, 2)
EVERY = [InputFact(B.HELD), InputFact(B.RELEASED), InputFact(B.WITHDRAWN), ONE, TWO]
EVERY += [InputFact(B.DONE, 1), InputFact(B.DONE, 2)]


def every_history(length: int = 4) -> Iterator[tuple[InputFact, ...]]:
    for many in range(length + 1):
        yield from product(EVERY, repeat=many)


@pytest.mark.parametrize(
    ("facts", "live", "state", "sent"),
    [
        ([], None, InputState.WAITING, Sent.NEVER),
        ([InputFact(B.HELD)], None, InputState.HELD, Sent.NEVER),
        ([InputFact(B.HELD), InputFact(B.RELEASED)], None, InputState.WAITING, Sent.NEVER),
        ([InputFact(B.WITHDRAWN)], None, InputState.WITHDRAWN, Sent.NEVER),
        ([ONE], 1, InputState.TAKEN, Sent.UNKNOWN),
        ([ONE], None, InputState.UNKNOWN, Sent.UNKNOWN),
        ([ONE], 2, InputState.UNKNOWN, Sent.UNKNOWN),
        ([ONE, InputFact(B.DONE, 1)], 1, InputState.DONE, Sent.SENT),
        ([ONE, InputFact(B.RELEASED)], None, InputState.WAITING, Sent.UNKNOWN),
        ([ONE, InputFact(B.RELEASED), InputFact(B.HELD)], None, InputState.HELD, Sent.UNKNOWN),
        ([ONE, InputFact(B.RELEASED), InputFact(B.DONE, 1)], None, InputState.DONE, Sent.SENT),
        ([ONE, InputFact(B.WITHDRAWN)], None, InputState.WITHDRAWN, Sent.UNKNOWN),
        ([ONE, InputFact(B.WITHDRAWN), InputFact(B.DONE, 1)], None, InputState.DONE, Sent.SENT),
    ],
)
def test_what_its_facts_say(facts: list[InputFact], live: int | None, state: InputState, sent: Sent) -> None:
    folded = fold_input(facts, live)
    assert (folded.state, folded.sent) == (state, sent)


def test_never_sent_is_said_of_what_no_run_has_taken_and_of_nothing_else() -> None:
    for facts in every_history():
        taken = any(fact.became is B.TAKEN for fact in facts)
        assert (fold_input(facts, 2).sent is Sent.NEVER) == (not taken), facts


def test_sent_is_said_only_on_the_word_of_a_run_that_had_taken_it() -> None:
    for facts in every_history():
        words = [at for at, fact in enumerate(facts) if fact.became is B.DONE]
        heard = any(InputFact(B.TAKEN, facts[at].run) in facts[:at] for at in words)
        folded = fold_input(facts, 2)
        assert (folded.sent is Sent.SENT) == (folded.state is InputState.DONE) == heard, facts


def test_what_waits_does_not_depend_on_which_run_is_live() -> None:
    for facts in every_history():
        assert len({fold_input(facts, live).waits for live in (None, 1, 2, 3)}) == 1, facts


def test_what_was_acted_on_waits_for_nobody_whatever_is_stored_after() -> None:
    for facts in every_history(3):
        assert not fold_input([ONE, InputFact(B.DONE, 1), *facts], None).waits, facts


def test_a_person_may_release_only_what_does_not_wait_already_and_no_run_has() -> None:
    assert frozenset({InputState.HELD, InputState.UNKNOWN}) == RELEASABLE
    assert frozenset(InputState) - {InputState.TAKEN, InputState.DONE, InputState.WITHDRAWN} == WITHDRAWABLE
