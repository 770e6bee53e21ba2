"""What becomes of an input: the words of its facts, and their fold. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Became(StrEnum):
    """One fact about what became of an input."""

    HELD = "held"  # by a stop
    RELEASED = "released"  # by a person
    TAKEN = "taken"  # by a run
    DONE = "done"  # the run that took it says so
    WITHDRAWN = "withdrawn"  # by a person


class InputState(StrEnum):
    WAITING = "waiting"  # for the live run, or the next one
    HELD = "held"  # a stop keeps it: it is sent only if a person releases it
    TAKEN = "taken"  # the live run has it, and has not said that it is done with it
    DONE = "done"
    UNKNOWN = "unknown"  # the run that took it ended before it said so
    WITHDRAWN = "withdrawn"


class Sent(StrEnum):
    """Whether an agent has acted on it, as far as that is known."""

    NEVER = "never"  # no run has taken it
    SENT = "sent"  # a run took it, and said that it is done with it
    UNKNOWN = "unknown"  # a run took it, and has not said so


@dataclass(frozen=True, slots=True)
class InputFact:
    became: Became
    run: int | None = None  # of taken and done


@dataclass(frozen=True, slots=True)
class FoldedInput:
    """What the facts say; `run` is the one that took it last."""

    state: InputState
    sent: Sent
    run: int | None = None

    @property
    def waits(self) -> bool:
        """Whether the next run that asks gets it. That depends on its facts alone, and on no run."""
        return self.state is InputState.WAITING


RELEASABLE = frozenset({InputState.HELD, InputState.UNKNOWN})
WITHDRAWABLE = RELEASABLE | {InputState.WAITING}

_STATES = {
    None: InputState.WAITING,
    Became.RELEASED: InputState.WAITING,
    Became.HELD: InputState.HELD,
    Became.TAKEN: InputState.TAKEN,
    Became.WITHDRAWN: InputState.WITHDRAWN,
}


def fold_input(facts: Iterable[InputFact], live_run: int | None) -> FoldedInput:
    """The input after these facts, which were stored one after the other under its task's lock.

    A run's word that it is done counts whenever it comes: what was acted on is not sent again.
    """
    takers: list[int | None] = []
    last: Became | None = None
    done = False
    for fact in facts:
        if fact.became is Became.DONE:
            done = done or fact.run in takers
            continue
        last = fact.became
        if last is Became.TAKEN:
            takers.append(fact.run)
    run = takers[-1] if takers else None
    if done:
        return FoldedInput(InputState.DONE, Sent.SENT, run)
    over = last is Became.TAKEN and run != live_run
    return FoldedInput(InputState.UNKNOWN if over else _STATES[last], Sent.UNKNOWN if takers else Sent.NEVER, run)
