"""The timeline of a task as a layout: a story goes in, lanes, marks, bands and lines come out. Pure, and without words.

Each fact has exactly one mark. Where several are close together, a mark stands beside its moment; it stays on the side
of each edge (a stop, the begin and end of runs and pauses) on which it happened.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import accumulate, groupby
from typing import NamedTuple

from agentstop.story import Extent, Fact, Kind, Row, Span, Story
from agentstop.timeline.shapes import SHAPES
from agentstop.timeline.timescale import Break, Scale, Tick, scale, spread

WIDTH = 1200.0
LEFT, RIGHT = 280.0, 1000.0  # of the time; names stand before it, outcomes behind
PAD = 16.0  # from there to the first moment, and from the last
LANE, SMALL_LANE = 24.0, 18.0  # heights
MANY = 60  # lanes, from which on they are small
TOP = 6.0
FLAG = 18.0  # height of a row of flags, and of the names of runs and pauses
AXIS = 40.0  # height of the ticks' labels
RADIUS = 5.0  # of a mark
LETTER = 6.4  # width of a letter of a flag or band, at the most
TIME = 16  # letters of the time in a flag
WORDS = 60  # letters of a flag
NAMES, NAME = 38, 22  # columns before the time: of name and detail, of a name that has a detail
OUTCOME = 31  # columns behind it
NOTE = 180  # letters of a sentence below the legend
LEGEND, COLUMN = 22.0, 236.0  # of an entry of the legend


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    fact: Fact

    @property
    def shape(self) -> str:
        return SHAPES[self.fact.kind]


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of a row."""

    x: float
    width: float
    goes_on: bool
    unsure: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """One row as it is drawn; `y` is its middle."""

    row: Row
    y: float
    even: bool
    marks: tuple[Mark, ...]
    bars: tuple[Bar, ...]
    dispatches: tuple[float, ...]

    @property
    def name(self) -> str:
        return fitted(self.row.name, NAME if self.row.detail else NAMES)

    @property
    def detail(self) -> str:
        """As much of it as there is room for behind the name."""
        return fitted(self.row.detail, NAMES - 1 - min(NAME, len(self.name)))

    @property
    def outcome(self) -> str:
        return fitted(self.row.outcome, OUTCOME)


@dataclass(frozen=True, slots=True)
class Band:
    """A run or a pause; `named` where there is room for its name."""

    x: float
    width: float
    span: Span
    even: bool
    named: bool


@dataclass(frozen=True, slots=True)
class Flag:
    """A stop as a line through all lanes. Its words stand `before` the line where there is no room behind it."""

    x: float
    y: float
    fact: Fact
    words: str
    before: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """An entry of the legend; `shape` is empty for what is no mark."""

    x: float
    y: float
    kind: Kind | Extent
    shape: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The whole layout. The lanes are between `top` and `bottom`."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    runs_y: float  # of the runs' names
    pauses_y: float
    lane: float
    lanes: tuple[Lane, ...]
    runs: tuple[Band, ...]
    pauses: tuple[Band, ...]
    flags: tuple[Flag, ...]
    ticks: tuple[Tick, ...]
    breaks: tuple[Break, ...]
    samples: tuple[Sample, ...]
    notes: tuple[tuple[float, str], ...]  # sentences below the legend, each with its height

    @property
    def half(self) -> float:
        """Of a lane's height."""
        return self.lane / 2


class _Edge(NamedTuple):
    """Where nothing may stand on the other side of: before it up to `low`, from its moment on behind `high`."""

    at: datetime
    low: float
    high: float


class _Ground(NamedTuple):
    """What all lanes stand on."""

    line: Scale
    edges: Sequence[_Edge]
    end: datetime  # up to where what goes on is drawn


def _ground(story: Story) -> _Ground:
    line = scale(story.moments, LEFT + PAD, RIGHT - PAD)
    edges = [_Edge(at, line.x(at), line.x(at)) for at in story.edges]
    breaks = [_Edge(each.at, each.start + RADIUS, each.end - RADIUS) for each in line.breaks]
    return _Ground(line, sorted([*breaks, *edges]), story.end)


def layout(story: Story, zone: tzinfo) -> Picture:
    """The picture of a story, its ticks at round times of this zone."""
    ground = _ground(story)
    flags = _flags(story.stops, ground.line)
    runs_y = max((flag.y for flag in flags), default=TOP) + FLAG
    pauses_y = runs_y + FLAG if story.pauses else runs_y
    top, lane = pauses_y + FLAG + AXIS, SMALL_LANE if len(story.rows) > MANY else LANE
    bottom = top + lane * len(story.rows)
    samples = _samples(story, bottom + AXIS)
    legend = max((sample.y for sample in samples), default=bottom + AXIS)
    notes = tuple((legend + LEGEND * number, fitted(text, NOTE)) for number, text in enumerate(story.rest, 1))
    return Picture(
        width=WIDTH,
        height=legend + LEGEND * (len(notes) + 2),
        left=LEFT,
        right=RIGHT,
        top=top,
        bottom=bottom,
        runs_y=runs_y,
        pauses_y=pauses_y,
        lane=lane,
        lanes=tuple(_lanes(story, ground, top, lane)),
        runs=tuple(_bands(story.runs, ground)),
        pauses=tuple(_bands(story.pauses, ground)),
        flags=flags,
        ticks=ground.line.ticks(zone),
        breaks=ground.line.breaks,
        samples=samples,
        notes=notes,
    )


def fitted(text: str, columns: int) -> str:
    """As much of a text as fits into so many columns of a table: characters of East Asia and pictures take two."""
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text[: columns + 1]]
    if sum(widths) <= columns:
        return text
    return text[: bisect_right(list(accumulate(widths)), columns - 1)] + "…"


def _lanes(story: Story, ground: _Ground, top: float, height: float) -> Iterator[Lane]:
    for number, row in enumerate(story.rows):
        # The task's own facts are the edges: they stand where they happened.
        beside = ground._replace(edges=()) if row is story.task else ground
        marks = tuple(_marks(row.facts, beside))
        bars = tuple(_bars(row, marks, ground))
        dispatches = tuple(sorted({_beside(at, ground) for at in row.dispatches}))
        yield Lane(row, top + height * (number + 0.5), number % 2 == 0, marks, bars, dispatches)


def _marks(facts: Sequence[Fact], ground: _Ground) -> Iterator[Mark]:
    order = list(Kind)
    sided = [(_side(fact, ground.edges), fact) for fact in facts]
    sided.sort(key=lambda pair: (pair[0], pair[1].at, order.index(pair[1].kind)))
    for side, group in groupby(sided, key=lambda pair: pair[0]):
        together = [fact for _, fact in group]
        places = spread([ground.line.x(fact.at) for fact in together], *_bounds(side, ground))
        yield from map(Mark, places, together)


def _side(fact: Fact, edges: Sequence[_Edge]) -> int:
    """How many edges it stands behind. What passed the gate in the very moment of a stop passed before it."""
    return (bisect_left if fact.kind is Kind.PASSED else bisect_right)(edges, fact.at, key=lambda edge: edge.at)


def _bounds(side: int, ground: _Ground, room: float = RADIUS) -> tuple[float, float]:
    """Where marks may stand between two edges; both bounds are the middle where there is no room."""
    low = ground.edges[side - 1].high if side else LEFT
    high = ground.edges[side].low if side < len(ground.edges) else RIGHT
    room = min(room, (high - low) / 2)
    return low + room, high - room


def _beside(at: datetime, ground: _Ground) -> float:
    """Where a dispatch of a child stands; those that would fall on one another are one."""
    side = bisect_left(ground.edges, at, key=lambda edge: edge.at)
    low, high = _bounds(side, ground, room=1.5)
    return min(max(round(ground.line.x(at)), low), high)


def _bars(row: Row, marks: Sequence[Mark], ground: _Ground) -> Iterator[Bar]:
    """Each stretch from mark to mark, where its moments have one."""
    first = {mark.fact.at: mark.x for mark in reversed(marks)}
    last = {mark.fact.at: mark.x for mark in marks}
    for stretch in row.stretches:
        start = first.get(stretch.start, ground.line.x(stretch.start))
        end = ground.line.x(stretch.end or ground.end)
        if stretch.end is not None:
            end = last.get(stretch.end, end)
        yield Bar(start, max(0.0, end - start), stretch.end is None, stretch.unsure)


def _bands(spans: Sequence[Span], ground: _Ground) -> Iterator[Band]:
    for number, span in enumerate(spans):
        start = ground.line.x(span.start)
        width = max(1.0, ground.line.x(span.end or ground.end) - start)
        yield Band(start, width, span, number % 2 == 0, len(span.name) * LETTER <= width)


def _flags(stops: Sequence[Fact], line: Scale) -> tuple[Flag, ...]:
    """The stops in order; words that would cover each other stand in rows of their own."""
    taken: list[float] = []  # up to where each row is
    found = []
    for fact in sorted(stops, key=lambda fact: fact.at):
        x, words = line.x(fact.at), fitted(fact.text, WORDS)
        width = (len(words) + TIME) * LETTER
        before = x + width > WIDTH
        start = x - width if before else x
        row = next((number for number, end in enumerate(taken) if end <= start), len(taken))
        taken[row : row + 1] = [start + width]
        found.append(Flag(x, TOP + FLAG * row, fact, words, before))
    return tuple(found)


def _samples(story: Story, top: float) -> tuple[Sample, ...]:
    """Everything that the picture has, and nothing else."""
    used: set[Kind | Extent] = {fact.kind for row in story.rows for fact in row.facts}
    for row in story.rows:
        used |= {Extent.UNSURE if stretch.unsure else Extent.UNDER_WAY for stretch in row.stretches}
        used |= {Extent.DISPATCH for _ in row.dispatches[:1]}
    columns = int(WIDTH // COLUMN)
    entries = [each for each in (*Kind, *Extent) if each in used]
    return tuple(
        Sample(
            TOP + COLUMN * (number % columns),
            top + LEGEND * (number // columns),
            entry,
            SHAPES[entry] if isinstance(entry, Kind) else "",
        )
        for number, entry in enumerate(entries)
    )
