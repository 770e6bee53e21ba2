"""What a race came to, and both numbers: stale results admitted, and writes after the stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentstop.words.sentences import Label

NOTHING_WAS_DONE = frozenset({Label.NOT_SENT, Label.CANCELLED, Label.FAILED})
IT_WAS_DONE = frozenset({Label.COMPLETED, Label.COMPLETED_BEFORE})


@dataclass(slots=True)
class Played:
    """One row, with the stop before or after its point was passed."""

    row: str
    when: str  # "before" or "after" the point was passed
    skipped: str = ""  # why it does not apply to this agent
    shown: list[str] = field(default_factory=list)  # labels right after the stop
    ends: list[str] = field(default_factory=list)  # labels at the end
    writes: int = 0  # in the provider's ledger, at the end
    writes_after: int = 0  # of them, after the stop
    stale: int = 0  # results that were admitted after the stop
    faults: list[str] = field(default_factory=list)

    def line(self) -> str:
        if self.skipped:
            return f"{self.row:<40} {self.when:<7} does not apply: {self.skipped}"
        told = f"{_said(self.shown)} -> {_said(self.ends)}"
        return f"{self.row:<40} {self.when:<7} {told:<58} {self.writes:>6} {self.writes_after:>10} {self.stale:>5}"


def _said(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "-"


@dataclass(frozen=True, slots=True)
class Result:
    """All rows; `check()` raises where something is not as promised."""

    played: Sequence[Played]

    @property
    def stale(self) -> int:
        """Results that were admitted after a stop: 0 where all is well."""
        return sum(each.stale for each in self.played)

    @property
    def writes_after(self) -> int:
        """Effects that came about after a stop, because they had been sent before it: whatever it really was."""
        return sum(each.writes_after for each in self.played)

    @property
    def faults(self) -> list[str]:
        return [f"{each.row}, stopped {each.when}: {fault}" for each in self.played for fault in each.faults]

    def lines(self) -> Iterator[str]:
        """For people: what is said right after the stop and at the end, beside the provider's ledger."""
        told = "shown then -> at the end"
        yield f"{'point':<40} {'stopped':<7} {told:<58} {'writes':>6} {'after stop':>10} {'stale':>5}"
        yield from (each.line() for each in self.played)
        yield f"stale results admitted: {self.stale}"
        yield f"external writes after the stop: {self.writes_after}"
        yield from (f"FAULT {fault}" for fault in self.faults)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def check(self) -> Result:
        """Itself; an AssertionError with the whole table where a row has a fault, or none applied."""
        applied = [each for each in self.played if not each.skipped]
        if self.faults or not applied:
            raise AssertionError(f"{self}\n{'No row applied to this agent.' if not applied else ''}")
        return self
