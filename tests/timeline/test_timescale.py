"""Ticks at round times of the reader's zone, from milliseconds to years; and the room for marks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentstop.timeline.timescale import GAP, STEPS, round_moments, scale, spread

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 11, 29, 13, 57, 3, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("length", [timedelta(milliseconds=3), *(each * 7 for each in STEPS)], ids=str)
def test_a_scale_of_any_length_has_a_few_ticks_at_round_times(length: timedelta) -> None:
    ticks = scale([START, START + length], 0, 700).ticks(UTC)
    assert 2 <= len(ticks) <= 10
    assert len({tick.step for tick in ticks}) == 1


def test_ticks_stand_at_round_times_of_the_zone_and_the_first_of_a_day_says_which() -> None:
    ticks = scale([START, START + timedelta(hours=30)], 0, 700).ticks(ZoneInfo("Asia/Kathmandu"))
    local = [tick.at.astimezone(ZoneInfo("Asia/Kathmandu")) for tick in ticks]
    assert all(each.minute == each.second == 0 for each in local)
    assert [tick.dated for tick in ticks].count(True) == len({each.date() for each in local})


def test_days_begin_at_midnight_also_where_the_clocks_are_changed() -> None:
    start = datetime(2026, 10, 23, 12, tzinfo=BERLIN)
    days = list(
        round_moments(start.astimezone(UTC), start.astimezone(UTC) + timedelta(days=5), timedelta(days=1), BERLIN)
    )
    assert len(days) == 5
    assert all(each.astimezone(BERLIN).hour == 0 for each in days)
    assert [days[1] - days[0], days[2] - days[1]] == [timedelta(hours=24), timedelta(hours=25)]


def test_each_part_between_breaks_that_has_room_tells_when_it_is() -> None:
    burst = [START + timedelta(days=day, milliseconds=ms) for day in (0, 1, 9) for ms in range(0, 300, 10)]
    line = scale(burst, 0, 700)
    assert len(line.breaks) == 2
    days = {tick.at.date() for tick in line.ticks(UTC)}
    assert len(days) == 3


def test_the_moments_of_a_scale_stand_between_its_ends_and_others_at_them() -> None:
    line = scale([START, START + timedelta(seconds=10)], 100, 800)
    assert line.x(START) == 100
    assert line.x(START + timedelta(seconds=5)) == pytest.approx(450)
    assert line.x(START - timedelta(days=1)) == 100
    assert line.x(START + timedelta(days=1)) == 800


PLACES = st.lists(st.floats(0, 700), max_size=60).map(sorted)


@given(PLACES)
def test_spread_keeps_the_order_and_the_bounds(xs: list[float]) -> None:
    found = spread(xs, 0, 700)
    assert len(found) == len(xs)
    assert found == sorted(found)
    assert all(-1e-6 <= x <= 700 + 1e-6 for x in found)


@given(PLACES)
def test_what_has_room_is_not_moved(xs: list[float]) -> None:
    apart = [x for number, x in enumerate(xs) if number == 0 or x - xs[number - 1] > GAP]
    if all(later - earlier >= GAP for earlier, later in pairwise(apart)):
        assert spread(apart, 0, 700) == pytest.approx(apart)


def test_bounds_without_any_room_are_kept() -> None:
    assert spread([5.0, 5.0, 5.0], 5, 5) == [5, 5, 5]
