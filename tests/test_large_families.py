"""A stop of thousands: whole in every shape, each row read a few times, everybody told in one word.

What is marked is compared with a second way to find it, written here, on random families.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import Settings

from agentstop import database, inputs, wake
from agentstop.descendants import GoesOn
from agentstop.exceptions import Refused, Stopped
from agentstop.models import Decision, Input, InputEvent, ServingLink, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin, serve
from agentstop.spawning import ClosesARing
from agentstop.stop import stop
from agentstop.stop_signal import held
from agentstop.verify import differences
from tests import graph
from tests.conftest import HANG_GUARD
from tests.counted import eventually
from tests.trees import SHAPES, half_held, tree

pytestmark = pytest.mark.django_db(transaction=True)

MANY, THOUSANDS, HUNDREDS = 10_000, 3_000, database.BATCH + 100

only_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no NOTIFY and no such plan")


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_children_are_stopped_whole(shape: str, ann: User) -> None:
    """R31: each is over, with its run and a decision of its own, and none is left live."""
    root, first = tree(shape, MANY)
    report = stop(root.task_id, reason="enough")
    assert (report.descendants, report.goes_on) == (MANY, ())
    stopped = Task.objects.filter(pk__gte=first, state="stopped", live_run=None, stop_reason="enough")
    assert stopped.filter(stop_decision=report.decision, stopped_at=report.at).count() == MANY
    assert RunRow.objects.filter(state="stopped", ended_at=report.at).count() == MANY + 1
    decisions = Decision.objects.filter(verb="stop", policy="family", run=1, cause=report.decision, effect="applied")
    assert decisions.values("task").distinct().count() == decisions.count() == MANY
    assert not RunRow.objects.filter(state="live").exists()
    assert list(differences()) == []


def test_ten_thousand_children_are_held_and_let_go_with_their_parent() -> None:
    """R33: each by a decision of its own, in far fewer statements than there are children."""
    root, first = tree("wide", MANY)
    children = Task.objects.filter(pk__gte=first)
    with CaptureQueriesContext(connection) as queries:
        assert pause(root.task_id)
        assert children.filter(state="paused").count() == MANY
        pause(first)  # one has a cause of its own, and stays
        assert resume(root.task_id)
    assert len(queries) < MANY // 100
    assert list(children.exclude(state="active").values_list("pk", "state")) == [(first, "paused")]
    lifted = Decision.objects.filter(verb="resume", policy="family", cause__task=F("task"))
    assert lifted.values("task").distinct().count() == lifted.count() == MANY
    assert list(differences()) == []


def test_the_half_of_ten_thousand_that_another_root_holds_goes_on() -> None:
    root, first = half_held(MANY)
    report = stop(root.task_id)
    going = Task.objects.filter(state="active", pk__range=(first, first + MANY - 1)).count()
    assert report.descendants + going == MANY and MANY * 0.4 < going < MANY * 0.6
    assert len(report.goes_on) == 100 and report.goes_on[0].task == first + 2
    assert {one.why for one in report.goes_on} == {"held"}


def test_of_ten_thousand_that_go_on_the_first_hundred_are_named() -> None:
    root, first = tree("wide", MANY)
    other = begin("another root")
    links = [ServingLink(child_id=first + n, parent_id=other.task_id, parent_run=other.number) for n in range(MANY)]
    ServingLink.objects.bulk_create(links)
    report = stop(root.task_id)
    assert report.descendants == 0
    assert [one.task for one in report.goes_on] == list(range(first, first + 100))
    assert {(one.why, one.by) for one in report.goes_on} == {("held", other.task_id)}


def ended(shape: str, size: int) -> tuple[Run, int]:
    """The root of a tree in which all between it and the last one, whose id is given, have finished."""
    root, first = tree(shape, size)
    last = first + size - 1
    Task.objects.filter(pk__gte=first, pk__lt=last).update(state="finished", live_run=None)
    RunRow.objects.filter(task__gte=first, task__lt=last).update(state="finished", ended_at=database.now())
    return root, last


@pytest.mark.parametrize("shape", ["chain", "diamond"])
def test_why_one_goes_on_below_thousands_that_have_ended_is_told(shape: str) -> None:
    """R31: however deep it is, and however many ways lead up from it."""
    root, last = ended(shape, THOUSANDS)
    Task.objects.filter(pk=last).update(detached=True)
    assert stop(root.task_id).goes_on == (GoesOn(last, "detached"),)


def test_what_was_typed_for_hundreds_of_children_is_held_and_what_they_have_sent_is_asked_back(tools: None) -> None:
    """R6, R10: each input by the stop of its own task, each operation once, in more than one batch."""
    root, first = tree("wide", HUNDREDS)
    for child in range(first, first + HUNDREDS):
        inputs.add(child, "and then?")
        with Run(child, 1).dispatch("job", connector="tools", key="k") as op:
            op.accepted("7")
    report = stop(root.task_id)
    held = InputEvent.objects.filter(became="held", decision__cause=report.decision)
    assert held.filter(decision__task=F("input__task")).count() == held.count() == HUNDREDS
    assert not Input.objects.filter(waits=True).exists()
    asked = Decision.objects.filter(verb="cancel", cause=report.decision, operation__task=F("task"))
    assert asked.values("operation").distinct().count() == asked.count() == HUNDREDS
    assert list(differences()) == []


def test_ten_thousand_children_are_kept_in_one_call_and_one_that_is_none_of_them_is_named() -> None:
    """R31: all or none: a call that names a stranger's child, or one that never was, changes nothing."""
    root, first = tree("wide", MANY)
    children = Task.objects.filter(pk__gte=first, pk__lt=first + MANY)
    with pytest.raises(ValueError, match="keep names task 999999999"):
        begin(root.task_id, keep=[*range(first, first + MANY), 999_999_999])
    root.check()
    newer = begin(root.task_id, keep=range(first, first + MANY))
    assert (newer.number, children.filter(state="active").count()) == (2, MANY)
    assert ServingLink.objects.filter(parent=root.task_id, parent_run=2).count() == MANY
    assert stop(root.task_id).descendants == MANY
    assert list(differences()) == []


def test_a_ring_of_ten_thousand_is_refused_and_a_link_to_its_end_is_not() -> None:
    root, first = tree("chain", MANY)
    last = Run(first + MANY - 1, 1)
    with pytest.raises(ClosesARing):
        serve(root.task_id, last)
    other = begin("another")
    serve(other.task_id, last)
    assert stop(root.task_id).descendants == MANY + 1


def stopped() -> set[int]:
    return set(Task.objects.filter(state="stopped").values_list("pk", flat=True))


def grow(rng: random.Random, runs: list[Run], ann: User) -> None:
    """One thing that may happen to a family."""
    chance, one = rng.random(), rng.choice(runs)
    if chance < 0.65:
        parents = rng.sample(runs, rng.choice([1, 1, 2]))
        runs.append(begin("child", owner=ann, serves=parents, detached=rng.random() < 0.1))
    elif chance < 0.75:
        serve(one.task_id, rng.choice(runs))
    elif chance < 0.85:
        one.finish()
    elif chance < 0.92:
        pause(one.task_id)
    else:
        runs.append(begin(one.task_id, by=ann))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_stopped_is_what_a_second_way_finds_on_random_families(seed: int, ann: User) -> None:
    """R31, on both databases: whatever has been linked, finished, paused, begun again and stopped before."""
    rng = random.Random(seed)  # noqa: S311  a seeded course of events
    runs, took = [begin(f"root {number}", owner=ann) for number in range(3)], 0
    for _ in range(6):
        for _ in range(8):
            try:
                grow(rng, runs, ann)
            except Refused:
                continue
        one = Task.objects.get(pk=rng.choice(runs).task_id)
        expected, before = graph.to_be_stopped(graph.read(), one.pk), stopped()
        report = stop(one.pk)
        assert stopped() - before - {one.pk} == expected
        took += report.descendants
    assert took > 0
    assert list(differences()) == []


GREW, FEW = 1_500, 750  # what the planner has seen, and what is stopped then


def believe(what: str) -> None:
    """What the planner has been told of the tables before the family that is stopped grows."""
    with connection.cursor() as cursor:  # and what it is not told behind our back, on a busy machine
        for model in (Task, ServingLink):
            cursor.execute(f"ALTER TABLE {model._meta.db_table} SET (autovacuum_enabled = off)")
    if what != "nothing":
        root, _ = tree("wide", GREW)
        if what == "that nobody is active":
            stop(root.task_id)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


class RowsRead:
    """Counts the rows that PostgreSQL has read just before the commit of a stop, and in the second before it."""

    QUERY = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(wake, "notify_on_commit", self)

    def __call__(self, task_ids: object, over: bool = True) -> None:
        with connection.cursor() as cursor:
            cursor.execute(self.QUERY)
            self.count = int(cursor.fetchone()[0])


BELIEFS = ["nothing", "that one parent has all links", "that nobody is active"]


@only_postgresql
@pytest.mark.parametrize("shape", ["wide", "chain", "half held"])
@pytest.mark.parametrize("belief", BELIEFS)
def test_each_row_is_read_some_few_times_whatever_the_planner_believes(
    belief: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statistics are stale when a family grows fast: by plans made from them, 10,000 tasks once took fifty seconds."""
    believe(belief)
    root, _ = half_held(FEW) if shape == "half held" else tree(shape, FEW)
    read = RowsRead(monkeypatch)
    stop(root.task_id)
    assert FEW < read.count < 150 * FEW


@only_postgresql
@pytest.mark.parametrize("belief", BELIEFS)
def test_a_stop_above_what_has_ended_reads_each_row_some_few_times(
    belief: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a decision of its own, which was once looked for among all that the stop had caused."""
    believe(belief)
    root, _ = ended("wide", FEW)
    read = RowsRead(monkeypatch)
    stop(root.task_id)
    assert FEW < read.count < 150 * FEW


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it counts the steps of SQLite's own machine")
def test_a_stop_above_three_times_as_many_that_have_ended_takes_some_three_times_as_many_steps() -> None:
    def steps(size: int) -> int:
        root, _ = ended("wide", size)
        counted = [0]
        connection.connection.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 100)
        stop(root.task_id)
        connection.connection.set_progress_handler(None, 0)
        return counted[0]

    few, many = steps(HUNDREDS), steps(3 * HUNDREDS)
    assert 0 < few < many < 5 * few


@only_postgresql
def test_where_the_planner_chooses_all_rows_are_read_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(database, "each", lambda table, alias, on: f"JOIN {table} AS {alias} ON {on}")
    monkeypatch.setattr(database, "go_by_index", lambda: None)
    read, most = RowsRead(monkeypatch), 0
    for belief in BELIEFS:
        believe(belief)
        root, _ = tree("chain", FEW)
        stop(root.task_id)
        most = max(most, read.count)
    assert most > FEW * FEW / 2


def resumed(monkeypatch: pytest.MonkeyPatch) -> int:
    """The rows that are read to let a family go that nobody had counted."""
    believe("nothing")
    root, _ = tree("wide", 2 * FEW)
    pause(root.task_id)
    read = RowsRead(monkeypatch)
    assert resume(root.task_id)
    return read.count


@only_postgresql
def test_a_resume_reads_each_row_some_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """R33: what else holds each of 10,000 children was once looked for among the pauses of all of them."""
    assert 2 * FEW < resumed(monkeypatch) < 150 * FEW


@only_postgresql
def test_a_resume_by_the_planners_worst_choice_reads_all_rows_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(database, "go_by_index", go_through_all)
    assert resumed(monkeypatch) > FEW * FEW


def go_through_all() -> None:
    with connection.cursor() as cursor:
        for way in ("indexscan", "indexonlyscan", "bitmapscan", "hashjoin", "mergejoin"):
            cursor.execute(f"SET LOCAL enable_{way} = off")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[tuple[frozenset[int] | None, bool]]:
    """What this process hears by the database alone, as if another one had committed it."""
    settings.AGENTSTOP_SWEEP = HANG_GUARD * 10
    monkeypatch.setattr(wake, "announce", lambda *task_ids, over=False: None)
    return []


def test_every_child_of_ten_thousand_hears_of_the_stop_in_another_process(alone: list[Any]) -> None:
    """R1: one word for all of them, since no message could name them."""
    root, first = tree("wide", MANY)
    with held(first, 1) as one, held(first + MANY - 1, 1) as last:
        forget = wake.subscribe(lambda task_ids, over: alone.append((task_ids, over)))
        alone.clear()
        stop(root.task_id)
        assert one.wait(HANG_GUARD) and last.wait(HANG_GUARD)
        forget()
    assert one.reason is last.reason is Stopped
    assert set(alone) == {(None, True)}
    assert not only_one_expected() or len(alone) == 1


def only_one_expected() -> bool:
    return connection.vendor == "postgresql"  # SQLite's file may be seen to change in the middle of a commit


@only_postgresql
def test_a_wake_names_as_many_tasks_as_a_message_holds_and_no_task_is_too_large_for_it() -> None:
    heard: list[frozenset[int] | None] = []
    forget = wake.subscribe(lambda task_ids, over: heard.append(task_ids))
    heard.clear()
    few, many = [2**63 - 1 - n for n in range(399)], [2**63 - 1 - n for n in range(400)]
    for ids in (few, many, range(1, 100_001)):
        wake.notify_on_commit(ids)
    eventually(lambda: heard, [frozenset(few), None, None])
    forget()


@only_postgresql
def test_nothing_is_told_where_nothing_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[frozenset[int] | None] = []
    forget = wake.subscribe(lambda task_ids, over: heard.append(task_ids))
    heard.clear()
    wake.notify_on_commit([])
    wake.notify_on_commit([7])
    eventually(lambda: heard, [frozenset({7})])
    forget()
    assert "listening for wakes failed" not in caplog.text
