"""An input is held or taken, never both and never lost; each is taken once. Without the lock the fault is seen."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from types import SimpleNamespace
from unittest import mock

import pytest
from django.contrib.auth.models import User

from agentstop import database, taking
from agentstop.exceptions import Stopped, Superseded
from agentstop.inputs import Input, add, release, withdraw
from agentstop.models import Input as Row
from agentstop.models import InputEvent, Task
from agentstop.runs import Run, begin
from agentstop.stop import StopReport, stop
from tests.conftest import HANG_GUARD, InThread
from tests.inputs.reading import assert_verified, events, states
from tests.pair import Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

TRIALS = 40


def takes(run: Run) -> list[int]:
    """Everything, or nothing where the run is over by then."""
    try:
        return [each.id for each in run.take_inputs()]
    except (Stopped, Superseded):
        return []


def test_stop_against_take_either_holds_or_lets_have(in_thread: InThread) -> None:
    pair = Pair(in_thread, takes, lambda run: stop(run.task_id))
    for _ in range(TRIALS):
        run = begin("a task")
        typed = [add(run.task_id, text).id for text in ("one", "two", "three")]
        taken, report = pair.race(run)
        assert sorted([*taken, *report.held]) == typed
        assert taken == [] or report.held == ()
        assert states(run.task_id) == (["unknown"] * 3 if taken else ["held"] * 3)
    pair.end()
    assert_verified()


def test_stopping_the_parent_against_a_child_that_takes_holds_or_lets_have(in_thread: InThread) -> None:
    """R31: the child's input is held in the commit that stops its parent."""
    parents: dict[int, Run] = {}
    pair = Pair(in_thread, takes, lambda child: stop(parents[child.task_id].task_id))
    for _ in range(TRIALS):
        parent = begin("a parent")
        child = begin("a child", serves=[parent])
        parents[child.task_id] = parent
        typed = [add(child.task_id, text).id for text in ("one", "two")]
        taken, report = pair.race(child)
        assert (report.stopped, report.descendants, report.held) == (True, 1, ())
        assert taken in ([], typed)
        assert states(child.task_id) == (["unknown"] * 2 if taken else ["held"] * 2)
    pair.end()
    assert_verified()


def test_stop_against_those_who_type_loses_nothing(in_thread: InThread) -> None:
    pair = Pair(in_thread, *[lambda run: add(run.task_id, "one").id] * 3, lambda run: stop(run.task_id))
    for _ in range(TRIALS // 2):
        run = begin("a task")
        *typed, report = pair.race(run)
        assert set(report.held) <= set(typed) == set(Row.objects.filter(task=run.task_id).values_list("pk", flat=True))
        assert [pk for pk in sorted(typed) if pk not in report.held] == list(
            Row.objects.filter(task=run.task_id, waits=True).order_by("pk").values_list("pk", flat=True)
        )
    pair.end()
    assert_verified()


def test_two_runs_that_take_at_once_share_without_getting_anything_twice(in_thread: InThread) -> None:
    pair = Pair(in_thread, takes, lambda run: takes(begin(run.task_id)))
    for _ in range(TRIALS // 2):
        run = begin("a task")
        typed = [add(run.task_id, text).id for text in ("one", "two")]
        older, newer = pair.race(run)
        assert sorted([*older, *newer]) == typed
        runs = set(InputEvent.objects.filter(input__in=typed).values_list("run", flat=True))
        assert runs == {run.number if older else run.number + 1}
    pair.end()


def test_two_workers_with_the_same_run_share_without_getting_anything_twice(in_thread: InThread) -> None:
    """The same job delivered twice."""
    run, ready = begin("a task"), threading.Barrier(8, timeout=HANG_GUARD)
    typed = [add(run.task_id, str(number)).id for number in range(40)]

    def worker() -> list[int]:
        ready.wait()
        return [each.id for each in iter(Run(run.task_id, run.number).take_input, None)]

    got = [each.result(HANG_GUARD) for each in [in_thread(worker) for _ in range(8)]]
    assert sorted(pk for one in got for pk in one) == typed
    assert all(one == sorted(one) for one in got)
    assert all(run.input_done(pk) for pk in typed)


def test_whoever_releases_or_withdraws_at_once_only_one_of_them_does(in_thread: InThread, ann: User) -> None:
    def only(run: Run) -> int:
        return Row.objects.get(task=run.task_id).pk

    pair = Pair(in_thread, *[lambda run: release(only(run), by=ann)] * 2, lambda run: withdraw(only(run)))
    for _ in range(TRIALS // 2):
        run = begin("a task", owner=ann)
        add(run.task_id, "one")
        stop(run.task_id)
        first, second, withdrawn = pair.race(run)
        assert [first, second].count(True) <= 1 and withdrawn
        assert states(run.task_id) == ["withdrawn"]
    pair.end()
    assert_verified()


@contextmanager
def in_between(doing: Callable[[], object], *, locked: bool) -> Iterator[None]:
    """While a run takes: after it has read what waits, and before it writes; with or without the lock."""

    def now() -> datetime:
        doing()
        return database.now()

    durable = database.durable if locked else nullcontext
    fake = SimpleNamespace(alias=database.alias, durable=durable, now=now)
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(taking, "database", fake))
        if not locked:
            patches.enter_context(mock.patch.object(taking, "locked_task", lambda pk: Task.objects.get(pk=pk)))
        yield


def test_a_stop_that_comes_while_a_run_takes_waits_for_it(in_thread: InThread) -> None:
    run = begin("a task")
    typed = add(run.task_id, "one")
    pressed: list[Future[StopReport]] = []
    with in_between(lambda: pressed.append(in_thread(stop, run.task_id)), locked=True):
        assert run.take_inputs() == [typed]
    [press] = pressed
    assert press.result(HANG_GUARD).held == ()
    assert events(typed.id) == [("taken", run.number)]
    assert_verified()


def test_without_the_lock_an_input_is_held_and_taken(ann: User) -> None:
    """The fault that the lock is there for: a person reads "never sent" of what an agent has."""
    run = begin("a task", owner=ann)
    typed = add(run.task_id, "one")
    reports: list[StopReport] = []
    with in_between(lambda: reports.append(stop(run.task_id)), locked=False):
        taken = run.take_inputs()
    assert (taken, reports[0].held) == ([typed], (typed.id,))
    assert [became for became, _ in events(typed.id)] == ["held", "taken"]


def test_a_storm_of_everything_ends_with_facts_that_agree(in_thread: InThread, ann: User) -> None:
    """Typing, taking, being done, releasing, withdrawing, stopping and beginning again, from eight threads."""
    run, ready = begin("a task", owner=ann), threading.Barrier(8, timeout=HANG_GUARD)
    got: list[tuple[int, int]] = []

    def act(chance: random.Random) -> None:
        now = Run(run.task_id, Task.objects.get(pk=run.task_id).last_run)
        rows = list(Row.objects.filter(task=run.task_id).values_list("pk", flat=True))
        kind = chance.randrange(7)
        if kind <= 1:
            add(run.task_id, "one", by=ann)
        elif kind == 2:
            for each in _taken(now):
                got.append((each.id, now.number))
                if chance.random() < 0.5:
                    now.input_done(each)
        elif kind == 3 and rows:
            release(chance.choice(rows), by=ann)
        elif kind == 4 and rows:
            withdraw(chance.choice(rows), by=ann)
        elif kind == 5:
            stop(run.task_id, by=ann)
        else:
            begin(run.task_id, by=ann)

    def storm(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311  a seed, no secret
        ready.wait()
        for _ in range(25):
            act(chance)

    for each in [in_thread(storm, seed) for seed in range(8)]:
        each.result(HANG_GUARD)
    assert_verified()
    assert len(set(got)) == len(got)
    stored = InputEvent.objects.filter(became="taken").values_list("input", "run")
    assert sorted(stored) == sorted(got)


def _taken(run: Run) -> list[Input]:
    try:
        return run.take_inputs()
    except (Stopped, Superseded):
        return []
