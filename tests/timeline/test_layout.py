"""R39: the picture of a task. Nothing is lost, nothing stands outside, nothing is on the wrong side of a stop."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings

from agentstop.story import Fact, Kind, Row, Span, Story, Stretch
from agentstop.timeline import layout as layouts
from agentstop.timeline.layout import LEFT, RIGHT, Lane, Picture, fitted, layout
from tests.timeline.stories import T0, after, stories

NEAR = 1e-6


def lane(picture: Picture, row: str) -> Lane:
    return next(each for each in picture.lanes if each.row.id == row)


def one(*facts: Fact, **story: object) -> Picture:
    """The picture of one operation with these facts."""
    return layout(Story(Row("task", "Task"), after(60), (Row("op", "file.upload", facts=facts),), **story), UTC)  # type: ignore[arg-type]


def passed(seconds: float) -> Fact:
    return Fact(after(seconds), Kind.PASSED, "passed")


def answered(seconds: float) -> Fact:
    return Fact(after(seconds), Kind.ANSWERED, "answered")


def stopped(seconds: float) -> Row:
    return Row("task", "Task", facts=(Fact(after(seconds), Kind.STOPPED, "Stopped"),))


@settings(max_examples=50, deadline=None)
@given(stories())
def test_every_fact_has_exactly_one_mark_and_it_is_inside(story: Story) -> None:
    picture = layout(story, UTC)
    for drawn, row in zip(picture.lanes, story.rows, strict=True):
        assert drawn.row is row
        assert Counter(map(id, (mark.fact for mark in drawn.marks))) == Counter(map(id, row.facts))
        assert all(LEFT - NEAR <= mark.x <= RIGHT + NEAR for mark in drawn.marks)
        assert all(LEFT <= x <= RIGHT for x in drawn.dispatches)
        assert all(LEFT <= bar.x <= bar.x + bar.width <= RIGHT and bar.width >= 0 for bar in drawn.bars)


@settings(max_examples=50, deadline=None)
@given(stories())
def test_lanes_never_overlap_and_all_is_within_the_picture(story: Story) -> None:
    picture = layout(story, UTC)
    middles = [each.y for each in picture.lanes]
    assert all(later - earlier >= picture.lane - NEAR for earlier, later in pairwise(middles))
    assert picture.top < middles[0] - picture.lane / 3 and middles[-1] + picture.lane / 3 < picture.bottom
    assert picture.bottom < picture.height
    assert all(sample.y < picture.height for sample in picture.samples)
    for band in (*picture.runs, *picture.pauses):
        assert LEFT <= band.x <= band.x + band.width <= RIGHT + 1
    assert all(LEFT <= tick.x <= RIGHT for tick in picture.ticks)


@settings(max_examples=50, deadline=None)
@given(stories())
def test_no_mark_changes_sides_with_an_edge_and_marks_of_a_lane_keep_their_order(story: Story) -> None:
    picture = layout(story, UTC)
    places = {flag.fact.at: flag.x for flag in picture.flags}
    for drawn in picture.lanes[1:]:
        for earlier, later in pairwise(drawn.marks):
            assert earlier.fact.at <= later.fact.at
            assert earlier.x <= later.x + NEAR
        for mark in drawn.marks:
            for at, x in places.items():
                if mark.fact.at < at:
                    assert mark.x <= x + NEAR
                if mark.fact.at > at:
                    assert mark.x >= x - NEAR


@settings(max_examples=50, deadline=None)
@given(stories())
def test_the_scale_never_runs_backwards_and_ticks_can_be_read(story: Story) -> None:
    for zone in (UTC, ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/New_York")):
        picture = layout(story, zone)
        assert picture.ticks
        assert all(later.x - earlier.x >= 70 for earlier, later in pairwise(picture.ticks))
        assert all(later.at > earlier.at for earlier, later in pairwise(picture.ticks))
        assert len(picture.breaks) <= 4
        assert all(later.start >= earlier.end for earlier, later in pairwise(picture.breaks))


def test_milliseconds_stay_apart_beside_days() -> None:
    days = Row("slow", "slow", facts=(passed(0), answered(3 * 86400)))
    quick = tuple(Row(f"q{n}", "quick", facts=(passed(n + 1), answered(n + 1.05))) for n in range(5))
    picture = layout(Story(Row("task", "Task"), T0, (days, *quick)), UTC)
    [cut] = picture.breaks
    assert timedelta(days=2, hours=23) < cut.length < timedelta(days=3)
    first, last = lane(picture, "q0"), lane(picture, "q4")
    assert last.marks[0].x - first.marks[0].x > (RIGHT - LEFT) / 2
    assert all(each.marks[1].x - each.marks[0].x >= 10 for each in picture.lanes[2:])


def test_what_is_spread_evenly_is_not_cut() -> None:
    rows = tuple(Row(f"{n}", "op", facts=(passed(10 * n), answered(10 * n + 0.05))) for n in range(30))
    assert layout(Story(Row("task", "Task"), T0, rows), UTC).breaks == ()


def test_between_breaks_a_second_is_equally_long_everywhere() -> None:
    picture = one(*[passed(second) for second in (0, 100, 200, 90_000, 90_100)])
    x = [mark.x for mark in lane(picture, "op").marks]
    assert len(picture.breaks) == 1
    assert x[1] - x[0] == pytest.approx(x[2] - x[1]) == pytest.approx(x[4] - x[3])


def test_no_mark_stands_in_a_break() -> None:
    quick = tuple(Row(f"q{n}", "quick", facts=tuple(passed(n / 1000) for n in range(9))) for n in (1, 2))
    picture = layout(Story(Row("task", "Task"), T0, (*quick, Row("late", "late", facts=(answered(9e5),)))), UTC)
    [cut] = picture.breaks
    places = [mark.x for drawn in picture.lanes for mark in drawn.marks]
    assert all(x <= cut.start + NEAR or x >= cut.end - NEAR for x in places)


def test_a_dispatch_right_before_the_stop_stands_before_its_line_and_an_answer_right_after_it_behind() -> None:
    """R3, R39: three milliseconds in an hour are less than a hair, and decide what the picture says."""
    before, after_it = passed(1799.997), answered(1800.003)
    row = Row("op", "op", facts=(before, after_it))
    ends = Row("wide", "wide", facts=(passed(0), answered(3600)))
    picture = layout(Story(stopped(1800), T0, (row, ends)), UTC)
    [flag] = picture.flags
    early, late = lane(picture, "op").marks
    assert early.x <= flag.x - 5 < flag.x + 5 <= late.x


def test_what_passed_in_the_very_moment_of_the_stop_passed_before_it() -> None:
    row = Row("op", "op", facts=(passed(10), Fact(after(10), Kind.REFUSED, "refused")))
    wide = Row("wide", "wide", facts=(passed(0), answered(20)))
    picture = layout(Story(stopped(10), T0, (row, wide)), UTC)
    [flag] = picture.flags
    assert [(mark.fact.kind, mark.x < flag.x) for mark in lane(picture, "op").marks] == [
        (Kind.PASSED, True),
        (Kind.REFUSED, False),
    ]


def test_marks_that_fall_together_are_spread_and_many_of_them_stay_near_their_moment() -> None:
    even = tuple(Row(f"{n}", "even", facts=(passed(n),)) for n in range(61))
    crowd = Row("op", "op", facts=tuple(passed(30 + n / 1000) for n in range(40)))
    picture = layout(Story(Row("task", "Task"), T0, (*even, crowd)), UTC)
    places = [mark.x for mark in lane(picture, "op").marks]
    assert len(set(places)) == 40
    assert max(places) - min(places) <= 60 + NEAR
    assert abs(sum(places) / 40 - lane(picture, "30").marks[0].x) < 1


def test_a_bar_reaches_from_mark_to_mark_and_what_goes_on_reaches_now() -> None:
    facts = (passed(1), answered(1.001), passed(30))
    row = Row(
        "op", "op", facts=facts, stretches=(Stretch(after(1), after(1.001)), Stretch(after(30), None, unsure=True))
    )
    picture = layout(Story(Row("task", "Task"), after(60), (row,)), UTC)
    drawn = lane(picture, "op")
    done, open_one = drawn.bars
    assert (done.x, done.x + done.width) == (drawn.marks[0].x, drawn.marks[1].x)
    assert (open_one.goes_on, open_one.unsure) == (True, True)
    assert open_one.x + open_one.width == RIGHT - layouts.PAD


def test_what_is_over_ends_with_its_last_fact_however_late_it_is_looked_at() -> None:
    done = Row("op", "op", facts=(passed(0), answered(10)), stretches=(Stretch(T0, after(10)),))
    early, late = (layout(Story(Row("task", "T"), now, (done,)), UTC) for now in (after(11), after(10**7)))
    assert early == late


def test_a_task_of_which_nothing_is_known_has_a_picture() -> None:
    picture = layout(Story(Row("task", "Task"), T0), UTC)
    assert len(picture.lanes) == 1 and len(picture.ticks) >= 1


def test_runs_and_pauses_are_named_only_where_there_is_room() -> None:
    runs = (Span(T0, after(50), "run 1"), Span(after(50), after(50.001), "run 2"), Span(after(50.001), None, "run 3"))
    picture = one(passed(1), runs=runs, pauses=(Span(after(10), after(20), "paused"),))
    assert [band.named for band in picture.runs] == [True, False, True]
    assert all(band.width >= 1 for band in picture.runs)
    [pause] = picture.pauses
    assert pause.named


def test_the_words_of_stops_that_are_close_to_each_other_stand_in_rows() -> None:
    stops = tuple(Fact(after(n), Kind.STOPPED, "Stopped by ann") for n in (1, 2, 3, 50))
    picture = layout(Story(Row("task", "Task", facts=stops), after(60), (Row("op", "op", facts=(passed(0),)),)), UTC)
    rows = [flag.y for flag in picture.flags]
    assert len(set(rows[:3])) == 3 and rows[3] == rows[0]
    assert picture.runs_y > max(rows)


def test_a_stop_at_the_end_has_its_words_before_its_line() -> None:
    row = Row("task", "Task", facts=(Fact(after(60), Kind.STOPPED, "Stopped by ann: " + "the wrong quarter " * 9),))
    [flag] = layout(Story(row, after(60), (Row("op", "op", facts=(passed(0),)),)), UTC).flags
    assert flag.before and flag.words.endswith("…")


def test_dispatches_of_a_child_that_cannot_be_told_apart_are_one_and_keep_their_side() -> None:
    """R39: a child with thousands of operations has one lane."""
    child = Row("child", "child", dispatches=tuple(after(n / 100) for n in range(5000)))
    picture = layout(Story(stopped(25), after(60), (), (child,)), UTC)
    drawn, [flag] = lane(picture, "child"), picture.flags
    assert len(drawn.dispatches) <= RIGHT - LEFT
    late = layout(Story(stopped(25), after(60), (), (Row("child", "c", dispatches=(after(25.0001),)),)), UTC)
    assert lane(late, "child").dispatches[0] > flag.x


def test_the_legend_explains_what_is_there_and_nothing_else() -> None:
    picture = one(passed(0), answered(1))
    assert [sample.kind for sample in picture.samples] == [Kind.PASSED, Kind.ANSWERED]


def test_three_hundred_lanes_are_smaller_and_still_apart() -> None:
    rows = tuple(Row(f"{n}", "op", facts=(passed(n), answered(n + 0.2))) for n in range(300))
    picture = layout(Story(Row("task", "Task"), T0, rows), UTC)
    assert picture.lane == layouts.SMALL_LANE
    assert picture.height < 301 * layouts.SMALL_LANE + 200


@pytest.mark.parametrize(
    ("text", "columns", "short"),
    [
        ("report", 6, "report"),
        ("reports", 6, "repor…"),
        ("報告書", 6, "報告書"),
        ("報告書を", 6, "報告…"),
        ("🚀🚀🚀🚀", 6, "🚀🚀…"),
        ("x" * 100_000, 5, "xxxx…"),
        ("", 5, ""),
    ],
)
def test_a_text_is_cut_to_the_columns_that_it_takes(text: str, columns: int, short: str) -> None:
    assert fitted(text, columns) == short
