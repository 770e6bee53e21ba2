"""Seconds that calls took, and what is made of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Measure = Callable[[int], Sequence[float]]
"""Makes so many calls and answers the seconds that each took."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that is measured, by one caller or by many at once."""

    name: str
    callers: int
    measure: Measure


@dataclass
class Figures:
    """The seconds of every call of one subject, round by round."""

    name: str
    callers: int
    rounds: list[list[float]] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of all calls was done."""
        calls = sorted(seconds for one in self.rounds for seconds in one)
        return calls[min(len(calls) - 1, int(len(calls) * share))] * 1000

    def times_undisturbed(self, limit: Figures) -> float:
        """How many times as long as the limit by the fastest tenth of each: what is left where nothing interferes."""
        return self.quantile(0.1) / limit.quantile(0.1)

    def times(self, limit: Figures) -> float:
        """How many times as long as the limit: the median of the rounds, since both met the same noise in each."""
        pairs = zip(self.rounds, limit.rounds, strict=False)  # one may have been cut short
        return statistics.median(statistics.median(own) / statistics.median(other) for own, other in pairs)


@dataclass
class Part:
    """One database's figures; each group of callers begins with the limit that the others are compared with."""

    database: str
    figures: list[Figures] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # sentences

    def rounds(self, number: int, until: float) -> Iterator[int]:
        """So many, the first one in any case and none begun after `until`; what there was no time for is said."""
        for done in range(number):
            if done and time.monotonic() > until:
                self.missing.append(f"Only {done} of {number} rounds: there was no time for more.")
                return
            yield done

    def limit_of(self, figures: Figures) -> Figures:
        return next(one for one in self.figures if one.callers == figures.callers)
