"""`demo --check`: a machine that is too slow breaks no promise, and what is broken is not played until it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from website.demo.program import _checked
from website.demo.promises.panel import Broken, TooSlow
from website.demo.promises.scenes import TRIES, Scene, _play
from website.demo.promises.stage import Stage
from website.demo.promises.visitor import PATIENCE

NOBODY: Any = None  # these scenes look at no stage


class Play:
    """Raises these, one at a time, and keeps its promise after that."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.played = list(errors), 0

    def __call__(self, stage: Stage, tell: Any) -> None:
        self.played += 1
        if self.errors:
            raise self.errors.pop(0)
        tell("R1", "seen")


@pytest.mark.parametrize(
    ("errors", "played", "broken"),
    [
        ((), 1, 0),
        ((TooSlow("late"),) * (TRIES - 1), TRIES, 0),
        ((TooSlow("late"),) * TRIES, TRIES, 1),
        ((Broken("it is"),), 1, 1),
        ((OSError("gone"),), 1, 1),
    ],
)
def test_only_what_says_nothing_is_played_again(errors: tuple[Exception, ...], played: int, broken: int) -> None:
    play = Play(*errors)
    lines, count = _play(Scene({"R1": "a promise"}, play, alone=False), NOBODY)
    assert (play.played, count) == (played, broken)
    assert lines[0].startswith("R1 a promise: BROKEN — " if broken else "R1 a promise: ok — seen")


def test_what_is_held_at_the_provider_is_not_given_up_while_pages_are_waited_for(tmp_path: Path) -> None:
    assert float(_checked(tmp_path).environment["SEND_DEADLINE"]) >= 4 * PATIENCE
