"""Freezing amid the work: sixteen callers, each with what a process of its own would know, and tasks born meanwhile.

The referee is the database's clock, as in `test_hammer`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from agentstop import frozen, gate, lifecycle, request
from agentstop.exceptions import Frozen, InFlight, OutcomeUnknown
from agentstop.freeze import freeze, unfreeze
from agentstop.models import Attempt, Decision, Freeze, Task
from agentstop.passes import Pass
from agentstop.runs import Run, begin
from agentstop.testing.barriers import Barrier, held_at
from agentstop.verify import differences
from tests.apart import know_apart, waiting_for_locks
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.races.test_hammer import needs_row_locks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools"), pytest.mark.race]

CALLERS = 16
TRIALS = (5, 1)  # on PostgreSQL and on SQLite, whose one writer at a time is slow to wait for
PASSES = 40  # seen before the freeze, which comes amid the work then
AFTERWARDS = 8  # tries of each caller after the freeze has said that it is in force
CONDITION = "AND freeze_epoch <= %(epoch)s"


def wish(run: Run, key: str) -> request.Request:
    return request.make(run.task_id, run.number, "write", {}, {"connector": "tools", "key": key})


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    know_apart(monkeypatch)


# Callers at once


class Hammered:
    """Tasks for which all callers send, and which they begin, while one freeze is put in force."""

    def __init__(self, in_thread: InThread) -> None:
        self.runs = [begin(f"task {number}") for number in range(4)]
        self.passed = threading.Semaphore(0)
        self.in_force = threading.Event()
        self.callers = [in_thread(self._call, number) for number in range(CALLERS)]

    def _call(self, caller: int) -> None:
        afterwards = AFTERWARDS
        for turn in itertools.count():
            afterwards -= self.in_force.is_set()
            if not afterwards:
                return
            run = begin("born meanwhile") if turn % 8 == 3 else self.runs[turn % len(self.runs)]
            try:
                gate.open_gate(wish(run, f"shared {turn}" if turn % 8 == 7 else f"{caller}, {turn}"))
            except (Frozen, InFlight, OutcomeUnknown):
                continue
            self.passed.release()

    def freeze(self) -> Freeze:
        for _ in range(PASSES):
            assert self.passed.acquire(timeout=HANG_GUARD), "nothing passes"
        try:
            return freeze(connector="tools", reason="test")
        finally:
            self.in_force.set()

    def leaks(self, held: Freeze) -> int:
        for caller in self.callers:
            caller.result(HANG_GUARD)
        assert held.in_force_at is not None
        return Attempt.objects.filter(passed_at__gte=held.in_force_at).count()


def leaks(in_thread: InThread) -> Iterator[int]:
    """For each trial, how much has passed after `freeze` had returned."""
    for _ in range(TRIALS[connection.vendor == "sqlite"]):
        work = Hammered(in_thread)
        held = work.freeze()
        yield work.leaks(held)
        assert list(differences()) == []
        unfreeze(held)


def test_after_it_is_in_force_nothing_passes(in_thread: InThread) -> None:
    """R45, R7."""
    assert list(leaks(in_thread)) == [0] * TRIALS[connection.vendor == "sqlite"]


def test_without_the_column_something_passes(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail: a process that has not heard of the freeze goes on as before."""
    for name in ("POSTGRESQL", "SQLITE"):
        monkeypatch.setattr(gate, name, getattr(gate, name).replace(CONDITION, ""))
    assert next(leaks(in_thread)) > 0


# Held at one point


def overtakes(begun: Future[Freeze]) -> bool:
    """Whether the freeze ends while the other is held up; on SQLite, which has one writer at a time, it cannot."""
    if connection.vendor == "sqlite":
        return False
    eventually(lambda: begun.done() or waiting_for_locks() > 0, True)
    return begun.done()


def freeze_while_a_gate_is_open(in_thread: InThread) -> tuple[bool, Freeze]:
    """Whether it was in force before the gate's transaction was committed."""
    run, there = begin("x"), threading.Event()
    barrier = Barrier("k", there.set)
    with held_at("P1", barrier):
        passing = in_thread(gate.open_gate, wish(run, "k"))
        assert there.wait(HANG_GUARD)
        begun = in_thread(freeze, reason="test")
        overtaken = overtakes(begun)
        barrier.open()
        assert isinstance(passing.result(HANG_GUARD), Pass)
        return overtaken, begun.result(HANG_GUARD)


def test_it_waits_for_a_gate_that_is_open(in_thread: InThread) -> None:
    """What passes had passed before the freeze says that it is in force."""
    overtaken, held = freeze_while_a_gate_is_open(in_thread)
    assert not overtaken
    assert held.in_force_at is not None
    assert Attempt.objects.get().passed_at < held.in_force_at


@needs_row_locks
def test_without_the_gates_lock_it_does_not(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "POSTGRESQL", gate.POSTGRESQL.replace("FOR NO KEY UPDATE", ""))
    overtaken, _ = freeze_while_a_gate_is_open(in_thread)
    assert overtaken


@contextmanager
def being_born(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Run]]:
    """A task whose birth has read the clock; it is committed when the answer is called."""
    read, go_on = threading.Event(), threading.Event()
    open_run = lifecycle._open

    def held_up(task: Task, by: Any, now: Any) -> Decision:
        start = open_run(task, by, now)
        read.set()
        assert go_on.wait(HANG_GUARD)
        return start

    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "_open", held_up)
        birth = in_thread(begin, "born meanwhile")
        assert read.wait(HANG_GUARD)

        def go() -> Run:
            go_on.set()
            run: Run = birth.result(HANG_GUARD)
            return run

        yield go


def escapes(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a task that is born while a freeze begins can send, by a process that has not heard of the freeze."""
    begin("there before")  # so that there is a clock
    frozen.known()
    with being_born(in_thread, monkeypatch) as go:
        begun = in_thread(freeze, reason="test")
        overtakes(begun)
        run = go()
        begun.result(HANG_GUARD)
    return isinstance(gate.try_gate(wish(run, "k")), Pass)


def test_a_task_that_is_born_meanwhile_does_not_escape(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not escapes(in_thread, monkeypatch)
    assert list(differences()) == []


@needs_row_locks
def test_without_the_lock_on_the_clock_it_escapes(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not there to be reached, and has the epoch of before."""
    monkeypatch.setattr(frozen, "SHARE", frozen.READ)
    assert escapes(in_thread, monkeypatch)
