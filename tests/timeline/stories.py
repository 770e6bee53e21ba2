"""Random stories for the layout: facts that are milliseconds and days apart, many at once, and edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from agentstop.story import Fact, Kind, Row, Span, Story, Stretch

T0 = datetime(2026, 11, 29, 14, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


# As many milliseconds as days, and often the very same moment twice.
SPANS = st.one_of(st.integers(0, 3), st.integers(0, 10**4), st.integers(0, 10**7), st.integers(0, 10**12))
MOMENTS = st.builds(lambda microseconds: T0 + microseconds * MICROSECOND, SPANS)
OF_OPERATIONS = [
    kind for kind in Kind if kind not in (Kind.BEGUN, Kind.PAUSED, Kind.RESUMED, Kind.STOPPED, Kind.PRESSED, Kind.ENDED)
]


@st.composite
def intervals(draw: st.DrawFn) -> tuple[datetime, datetime | None]:
    start, end = sorted((draw(MOMENTS), draw(MOMENTS)))
    return start, None if draw(st.booleans()) else end


@st.composite
def rows(draw: st.DrawFn, name: str, kinds: Sequence[Kind]) -> Row:
    facts = draw(st.lists(st.builds(Fact, MOMENTS, st.sampled_from(kinds), st.just("it happened")), max_size=8))
    return Row(
        id=name,
        name=name,
        facts=tuple(facts),
        stretches=tuple(Stretch(*each) for each in draw(st.lists(intervals(), max_size=3))),
        dispatches=tuple(draw(st.lists(MOMENTS, max_size=5))),
    )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    spans: Any = st.lists(
        st.builds(lambda ends, number: Span(ends[0], ends[1], f"run {number}"), intervals(), st.integers(1, 9))
    )
    operations = draw(st.integers(0, 5))
    story = Story(
        task=draw(rows("task", list(Kind))),
        now=T0,
        operations=tuple(draw(rows(f"operation {number}", OF_OPERATIONS)) for number in range(operations)),
        children=tuple(draw(rows(f"child {number}", list(Kind))) for number in range(draw(st.integers(0, 2)))),
        runs=tuple(draw(spans)[:4]),
        pauses=tuple(draw(spans)[:4]),
    )
    now = max(story.moments) + draw(SPANS) * MICROSECOND
    return replace(story, now=now)
