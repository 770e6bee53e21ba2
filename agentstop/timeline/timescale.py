"""Time on a line: a scale that shortens long stretches in which nothing happened, its ticks, and room for marks. Pure.

Positions are in the picture's units; moments are aware datetimes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import groupby, pairwise

BREAK = 46.0  # width of a stretch that was shortened
MOST_BREAKS = 4
JUMP = 8  # times longer than every other gap is what is shortened
REST = 0.03  # of the time at the most is what is then left: it would be a hair's breadth
GAP = 11.0  # between two marks of one lane
CROWD = 60.0  # width of marks that stand closer than that: more of them stand closer still
LABEL = 76.0  # width of a tick's label

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
STEPS = (
    *(timedelta(milliseconds=n) for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(timedelta(seconds=n) for n in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=n) for n in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=n) for n in (1, 2, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 30, 90, 365)),
)


@dataclass(frozen=True, slots=True)
class Break:
    """A stretch in which nothing happened, drawn shorter than it was; `at` is a moment of it."""

    start: float
    end: float
    length: timedelta
    at: datetime

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment of the scale. `step` says how exactly it is to be told, `dated` whether its day differs from before."""

    x: float
    at: datetime
    step: timedelta
    dated: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Where each moment stands: linear from knot to knot, and the same everywhere but in the breaks."""

    knots: tuple[tuple[datetime, float], ...]
    rate: float  # units a second
    breaks: tuple[Break, ...]

    def x(self, at: datetime) -> float:
        """The position of a moment; those outside of the scale stand at its ends."""
        if at <= self.knots[0][0]:
            return self.knots[0][1]
        number = bisect_right(self.knots, at, key=lambda knot: knot[0])
        if number == len(self.knots):
            return self.knots[-1][1]
        (start, low), (end, high) = self.knots[number - 1], self.knots[number]
        return low + (high - low) * ((at - start) / (end - start))

    def ticks(self, zone: tzinfo) -> tuple[Tick, ...]:
        """Round moments in this zone, far enough apart to be read; of a stretch that has none, its beginning."""
        found, day = list[Tick](), None
        for at, x, step in self._chosen(zone):
            local = at.astimezone(zone).date()
            found.append(Tick(x, at, step, dated=local != day))
            day = local
        return tuple(found)

    def _chosen(self, zone: tzinfo) -> Iterator[tuple[datetime, float, timedelta]]:
        step = next((each for each in STEPS if each / SECOND * self.rate >= LABEL), STEPS[-1])
        free = float("-inf")
        for start, end in self._stretches():
            moments = [at for at in round_moments(start, end, step, zone) if self.x(at) >= free]
            if not moments and self.x(start) >= free:
                moments, exactly = [start], _exactness(start)
            else:
                exactly = step
            for at in moments:
                yield at, self.x(at), exactly
                free = self.x(at) + LABEL

    def _stretches(self) -> Iterator[tuple[datetime, datetime]]:
        """From break to break."""
        cut = {(each.start, each.end) for each in self.breaks}
        start = self.knots[0][0]
        for (left, low), (right, high) in pairwise(self.knots):
            if (low, high) in cut:
                yield start, left
                start = right
        yield start, self.knots[-1][0]


def _exactness(at: datetime) -> timedelta:
    return timedelta(milliseconds=1) if at.microsecond else SECOND


def scale(moments: Iterable[datetime], left: float, right: float) -> Scale:
    """A scale from the first of these moments to the last, between two positions."""
    times = sorted({moment.astimezone(UTC) for moment in moments})
    if len(times) == 1:  # nothing lasted: a second around it
        times = [times[0] - SECOND / 2, times[0], times[0] + SECOND / 2]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    broken = _to_break(gaps)
    linear = sum((gap for number, gap in enumerate(gaps) if number not in broken), timedelta())
    rate = (right - left - BREAK * len(broken)) / (linear / SECOND)
    x, knots, breaks = left, [(times[0], left)], list[Break]()
    for number, gap in enumerate(gaps):
        width = BREAK if number in broken else gap / SECOND * rate
        if number in broken:
            breaks.append(Break(x, x + width, gap, times[number] + gap / 2))
        x += width
        knots.append((times[number + 1], x))
    return Scale(tuple(knots), rate, tuple(breaks))


def _to_break(gaps: Sequence[timedelta]) -> frozenset[int]:
    """The gaps beside which all others could not be told apart, if they are few; then again among those others."""
    order = sorted(range(len(gaps)), key=lambda number: gaps[number], reverse=True)
    left, broken = sum(gaps, timedelta()), 0
    rest = left
    for many in range(1, min(MOST_BREAKS, len(gaps) - 1) + 1):
        rest -= gaps[order[many - 1]]
        if rest <= REST * left and gaps[order[many - 1]] >= JUMP * gaps[order[many]]:
            left, broken = rest, many
    return frozenset(order[:broken])


def round_moments(start: datetime, end: datetime, step: timedelta, zone: tzinfo) -> Iterator[datetime]:
    """The multiples of a step from start to end, as clocks and calendars in this zone count them."""
    if step < DAY:
        midnight = datetime.combine(start.astimezone(zone).date(), time.min, zone).astimezone(UTC)
        at = midnight + -(-(start - midnight) // step) * step
        while at <= end:
            yield at
            at += step
        return
    day = start.astimezone(zone).date()
    day = date.fromordinal(-(-day.toordinal() // step.days) * step.days)
    while (at := datetime.combine(day, time.min, zone).astimezone(UTC)) <= end:
        if at >= start:
            yield at
        day += step


def spread(xs: Sequence[float], low: float, high: float) -> list[float]:
    """Positions in the same order and as near as can be, far enough apart for marks, and none outside of the bounds."""
    if not xs:
        return []
    gap = min(GAP, (high - low) / max(1, len(xs) - 1))
    levels = _isotonic([x - number * gap for number, x in enumerate(xs)])
    most = high - gap * (len(xs) - 1)
    clipped = [min(max(level, low), most) for level in levels]
    found: list[float] = []
    for level, crowd in groupby(clipped):
        many = len(list(crowd))
        start, width = level + len(found) * gap, gap * (many - 1)
        narrow = min(width, CROWD)
        first = start + (width - narrow) / 2
        found += [first + narrow * number / max(1, many - 1) for number in range(many)]
    return found


def _isotonic(values: Sequence[float]) -> list[float]:
    """The nearest values that never fall: what falls is joined into its mean."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, many = value, 1
        while blocks and blocks[-1][0] >= mean:
            before, count = blocks.pop()
            mean, many = (before * count + mean * many) / (count + many), count + many
        blocks.append((mean, many))
    return [mean for mean, many in blocks for _ in range(many)]
