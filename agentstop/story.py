"""What a timeline tells of one task: facts in rows, as plain values. How they are drawn is not said here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agentstop.words.sentences import Tone


class Kind(StrEnum):
    """What kind of fact it is: each has a shape of its own. In the order in which those of one moment stand."""

    BEGUN = "begun"
    RESUMED = "resumed"
    REFUSED = "refused"
    PASSED = "passed"
    UNSENT = "unsent"
    LOST = "lost"
    ALIVE = "alive"
    CANCEL_SENT = "cancel_sent"
    ACKNOWLEDGED = "acknowledged"
    CANCEL_FAILED = "cancel_failed"
    ABSENT = "absent"
    BY_HAND = "by_hand"
    ANSWERED = "answered"
    SETTLED = "settled"
    PAUSED = "paused"
    STOPPED = "stopped"
    PRESSED = "pressed"
    ENDED = "ended"


class Extent(StrEnum):
    """What is drawn besides the marks of facts."""

    UNDER_WAY = "under_way"
    UNSURE = "unsure"
    DISPATCH = "dispatch"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened. A repeated one is told once, with how often and when last."""

    at: datetime
    kind: Kind
    text: str
    tone: Tone = Tone.QUIET
    count: int = 1
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which something was or may have been under way; `end` is None where it goes on."""

    start: datetime
    end: datetime | None
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What one lane tells of: the task itself, one operation, or one child."""

    id: str  # unique in its story
    name: str
    detail: str = ""
    outcome: str = ""
    tone: Tone = Tone.QUIET
    facts: tuple[Fact, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    dispatches: tuple[datetime, ...] = ()  # of a child: the gate passes of all of its operations
    link: str = ""  # the page of a child's own timeline


@dataclass(frozen=True, slots=True)
class Span:
    """A time with a name: a run or a pause. `end` is None where it goes on."""

    start: datetime
    end: datetime | None
    name: str


@dataclass(frozen=True, slots=True)
class Story:
    """All that is told of one task, as it is at `now`."""

    task: Row
    now: datetime
    operations: tuple[Row, ...] = ()
    children: tuple[Row, ...] = ()
    rest: tuple[str, ...] = ()  # sentences about what has no row
    runs: tuple[Span, ...] = ()
    pauses: tuple[Span, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.task, *self.operations, *self.children)

    @property
    def stops(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.task.facts if fact.kind is Kind.STOPPED)

    @property
    def goes_on(self) -> bool:
        """Whether anything of it has no end yet."""
        ends = [span.end for span in (*self.runs, *self.pauses)]
        return None in ends or any(stretch.end is None for row in self.rows for stretch in row.stretches)

    @property
    def end(self) -> datetime:
        """Up to when it is told: now where something goes on, else the last thing that happened."""
        return self.now if self.goes_on else max(self._moments(), default=self.now)

    @property
    def moments(self) -> frozenset[datetime]:
        """Everything that has a place on the line of time; never empty."""
        return frozenset({*self._moments(), self.end})

    @property
    def edges(self) -> list[datetime]:
        """The moments on whose other side nothing may be drawn, in order."""
        spans = {at for span in (*self.runs, *self.pauses) for at in (span.start, span.end) if at is not None}
        return sorted(spans | {stop.at for stop in self.stops})

    def _moments(self) -> Iterator[datetime]:
        yield from self.edges
        for row in self.rows:
            yield from (fact.at for fact in row.facts)
            yield from row.dispatches
            yield from (at for each in row.stretches for at in (each.start, each.end) if at is not None)
