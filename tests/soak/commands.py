"""Lives as lists of commands: drawn by Hypothesis, which cuts a failing one down, or from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from hypothesis import strategies as st

from tests.soak import freezes, outside  # noqa: F401  their commands are known by being there
from tests.soak.crew import THREADS
from tests.soak.driver import Command, Episode
from tests.soak.moves import MOVES, SHARED, WEIGHTS

STEPS = 100
NAMES = ["nothing", *(name for name, weight in WEIGHTS.items() for _ in range(weight)), *["at_once"] * 6]
NUMBERS = st.integers(0, 255)


class Script(list[Command]):
    """Commands that read as what has to be played again."""

    def __repr__(self) -> str:
        return "[\n" + "".join(f"    {each},\n" for each in self if each.name != "nothing") + "]"


SCRIPTS = st.lists(
    st.builds(Command, st.sampled_from(NAMES), NUMBERS, NUMBERS, NUMBERS), min_size=STEPS, max_size=STEPS
).map(Script)


def script(random: Random) -> Script:
    """The same commands for the same seed."""
    return Script(
        Command(random.choice(NAMES), random.randrange(256), random.randrange(256), random.randrange(256))
        for _ in range(STEPS)
    )


def play(episode: Episode, commands: Sequence[Command]) -> None:
    """All commands, then a long time in which everybody answers; raises the first Violation."""
    episode.choose(commands[0])
    try:
        for together in _in_turn([Command("new_task", 0, 1), *commands]):
            episode.world.random.seed(hash(together[0][1:]))
            steps = [step for each in together if (step := MOVES[each.name](episode, *each[1:])) is not None]
            if len(together) == 1:
                episode.alone(*steps)
            else:
                episode.at_once(steps)
        episode.converge()
    except BaseException as error:
        error.add_note("\n".join(["What was done:", *episode.log[-60:]]))
        raise


def _in_turn(commands: Iterable[Command]) -> Iterator[list[Command]]:
    """Each command that does something, alone or together with those that are to be done at once with it."""
    waiting: list[Command] = []
    wanted = 0
    for command in commands:
        if command.name == "at_once":
            wanted = wanted or 2 + command.a % (THREADS - 1)
        elif wanted and command.name in SHARED:
            waiting.append(command)
            if len(waiting) == wanted:
                yield waiting
                waiting, wanted = [], 0
        elif command.name in MOVES:
            yield [command]
