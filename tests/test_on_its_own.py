"""A child that a person begins while no run that it serves is live works for nobody, and what ends it is its own.

R4, R31.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from agentstop import descendants
from agentstop.models import Task
from agentstop.pause import pause
from agentstop.runs import Run, begin, serve
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)


def state(run: Run) -> str:
    return str(Task.objects.get(pk=run.task_id).state)


def test_it_goes_on_whoever_presses_on_its_parent_again(ann: User) -> None:
    root = begin("root", owner=ann)
    child = begin("child", serves=[root])
    stop(root.task_id, by=ann)
    again = begin(child.task_id, by=ann)
    below = begin("below", serves=[again])
    late = stop(root.task_id, by=ann, run=root.number)  # a second click, from a page that shows what was before
    assert (late.why, late.descendants) == ("already_stopped", 0)
    assert [(one.task, one.why, one.by) for one in late.goes_on] == [
        (child.task_id, "on_its_own", None), (below.task_id, "held", child.task_id),
    ]  # fmt: skip
    again.check()
    assert stop(again.task_id, by=ann).descendants == 1
    assert (state(again), state(below)) == ("stopped", "stopped")


def test_left_hanging_on_the_old_run_a_second_click_would_stop_it(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    without = descendants.REACHED.replace("(child.detached OR child.on_its_own)", "child.detached")
    assert without != descendants.REACHED
    monkeypatch.setattr(descendants, "REACHED", without)
    root = begin("root", owner=ann)
    child = begin("child", serves=[root])
    stop(root.task_id, by=ann)
    begin(child.task_id, by=ann)
    assert stop(root.task_id, by=ann, run=root.number).descendants == 1


def test_a_new_run_of_the_parent_neither_takes_it_along_nor_stops_it(ann: User) -> None:
    root = begin("root", owner=ann)
    child = begin("child", serves=[root])
    stop(root.task_id, by=ann)
    again = begin(child.task_id, by=ann)
    newer = begin(root.task_id, by=ann)
    pause(root.task_id, by=ann)
    assert state(again) == "active"
    stop(newer.task_id, by=ann)
    again.check()
    restarted = begin(child.task_id)  # by itself, as its queue may
    stop(root.task_id, by=ann)
    restarted.check()


def test_it_works_for_a_run_again_once_it_is_linked_to_one(ann: User) -> None:
    root = begin("root", owner=ann)
    children = [begin("child", serves=[root]) for _ in range(2)]
    stop(root.task_id, by=ann)
    served, spawned = (begin(child.task_id, by=ann) for child in children)
    newer = begin(root.task_id, by=ann)
    serve(served.task_id, newer)
    begin(spawned.task_id, serves=[newer])
    assert stop(newer.task_id, by=ann).descendants == 2


def test_while_one_is_live_it_works_for_that_and_ends_with_it(ann: User) -> None:
    root, other = begin("root", owner=ann), begin("other", owner=ann)
    child = begin("child", serves=[root, other])
    stop(root.task_id, by=ann)
    again = begin(child.task_id, by=ann)
    assert stop(other.task_id, by=ann).descendants == 1
    assert state(again) == "stopped"


def test_at_the_moment_of_its_parents_stop_it_is_stopped_with_it_or_on_its_own(ann: User, in_thread: InThread) -> None:
    for _ in range(6):
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        stop(child.task_id, by=ann)
        go = threading.Barrier(2, timeout=HANG_GUARD)

        def at_once(act: Callable[..., object], task: int, go: threading.Barrier = go) -> None:
            go.wait()
            act(task, by=ann)

        for each in [in_thread(at_once, *pair) for pair in ((stop, root.task_id), (begin, child.task_id))]:
            each.result(HANG_GUARD)
        task = Task.objects.get(pk=child.task_id)
        assert (task.state, task.on_its_own) in {("stopped", False), ("active", True)}
    assert list(differences()) == []
