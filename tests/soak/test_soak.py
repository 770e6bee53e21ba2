"""R1 to R25 under random commands from several connections, against the reference model and the provider's ledger."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.soak.commands import SCRIPTS, STEPS, play
from tests.soak.crew import Crew
from tests.soak.driver import Command, Episode, People

pytestmark = pytest.mark.django_db(transaction=True)

FIRST = 20_261_129  # the same lives each time, so that a change is judged by itself; `make soak` draws new ones
ROUND = 20  # lives a seed
TOTAL = int(os.environ.get("SOAK_STEPS", "20000" if connection.vendor == "sqlite" else "2000"))
ROUNDS = max(1, TOTAL // (STEPS * ROUND))


def search(live: Callable[[list[Command]], None]) -> None:
    """Play the lives of one seed; the commands of one that fails are cut down and printed."""
    chosen = settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    given(SCRIPTS)(chosen(live))()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_lives_keep_every_promise(number: int, people: People, crew: Crew) -> None:
    chosen = int(os.environ.get("SOAK_SEED", FIRST)) + number
    print(f"SOAK_SEED={chosen}")  # noqa: T201  it repeats this round

    @seed(chosen)
    def live(commands: list[Command]) -> None:
        play(Episode(people, crew), commands)

    search(live)
