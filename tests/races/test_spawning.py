"""A child that is being spawned while its parent is stopped: whoever holds the family's lock first, it does not run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User

from agentstop import closing, spawning
from agentstop.exceptions import Stopped
from agentstop.models import Run as RunRow
from agentstop.models import Task
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.races.scene import wait_for_the_lock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

Spawn = Callable[[Run], Run | None]


def anew(parent: Run) -> Run | None:
    """A child that was not there before; None where it is born stopped."""
    return _unless_refused(lambda: begin("child", serves=[parent]))


def again(parent: Run) -> Run | None:
    """One that was there and had finished; None where its new run is refused."""
    child = Task.objects.get(title="child")
    return _unless_refused(lambda: begin(child, serves=[parent]))


def _unless_refused(begin: Callable[[], Run]) -> Run | None:
    try:
        return begin()
    except Stopped:
        return None


@pytest.fixture(params=[anew, again])
def spawn(request: pytest.FixtureRequest) -> Spawn:
    spawn: Spawn = request.param
    return spawn


@pytest.fixture
def parent(ann: User, spawn: Spawn) -> Run:
    parent = begin("parent", owner=ann)
    if spawn is again:
        begin("child", serves=[parent]).finish()
    return parent


@contextmanager
def held_in(module: Any, name: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Hold whoever calls this function, within the transaction that it is called in; tells `there`, waits for `go`."""
    there, go, function = threading.Event(), threading.Event(), getattr(module, name)

    def held(*args: Any, **kwargs: Any) -> Any:
        there.set()
        assert go.wait(HANG_GUARD)
        return function(*args, **kwargs)

    with mock.patch.object(module, name, held):
        try:
            yield there, go
        finally:
            go.set()


def the_stop_is_first(parent: Run, spawn: Spawn, in_thread: InThread) -> Run | None:
    with held_in(closing, "close_children") as (there, go):
        pressing = in_thread(stop, parent.task_id)
        assert there.wait(HANG_GUARD)
        spawning = in_thread(spawn, parent)
        wait_for_the_lock()
        go.set()
        assert pressing.result(HANG_GUARD).stopped
        child: Run | None = spawning.result(HANG_GUARD)
    return child


def the_child_is_first(parent: Run, spawn: Spawn, in_thread: InThread) -> Run | None:
    with held_in(spawning, "link") as (there, go):
        begun = in_thread(spawn, parent)
        assert there.wait(HANG_GUARD)
        pressing = in_thread(stop, parent.task_id)
        wait_for_the_lock()
        go.set()
        assert pressing.result(HANG_GUARD).descendants == 1
        child: Run | None = begun.result(HANG_GUARD)
    return child


def running() -> int:
    return Task.objects.filter(state="active").count() + RunRow.objects.filter(state="live").count()


def test_a_child_that_comes_after_the_stop_is_born_stopped_or_refused(
    parent: Run, spawn: Spawn, in_thread: InThread
) -> None:
    """R31."""
    assert the_stop_is_first(parent, spawn, in_thread) is None
    assert running() == 0
    assert Task.objects.get(title="child").state == ("stopped" if spawn is anew else "finished")
    assert list(differences()) == []


def test_a_child_that_comes_before_the_stop_is_stopped_with_its_parent(
    parent: Run, spawn: Spawn, in_thread: InThread
) -> None:
    """R31."""
    child = the_child_is_first(parent, spawn, in_thread)
    assert child is not None and task_of(child).state == "stopped"
    assert running() == 0
    with pytest.raises(Stopped):
        child.check()
    assert list(differences()) == []


def test_without_a_second_look_under_the_lock_the_late_child_runs(
    parent: Run, spawn: Spawn, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the first test can fail."""
    monkeypatch.setattr(spawning, "is_held", lambda serves, parents: True)
    the_stop_is_first(parent, spawn, in_thread)
    assert running() == 2


def test_without_the_children_in_the_same_commit_the_early_child_runs(
    parent: Run, spawn: Spawn, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the second one can."""
    monkeypatch.setattr(closing, "close_children", lambda *args, **kwargs: [])
    with pytest.raises(AssertionError):
        the_child_is_first(parent, spawn, in_thread)
    assert running() == 2
