"""R33: a pause holds dispatch and ends nothing; callers wait, children are held with parents, a stop is immediate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection

from agentstop import database, family, holds
from agentstop import waiting as waiting_module
from agentstop.exceptions import Denied, Paused, Stopped, TaskNotFound
from agentstop.models import Decision, Operation, Task
from agentstop.models import Run as RunRow
from agentstop.outcomes import Outcome
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin
from agentstop.stop import StopReport, stop
from agentstop.verify import differences
from tests.apart import waiting_for_locks
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.pair import Pair

Caller = Callable[[Run], Outcome]
Start = Callable[[Caller, Run], Future[Outcome]]
Verb = Callable[..., Any]

pytestmark = pytest.mark.django_db(transaction=True)


def state(run: Run) -> str:
    return str(Task.objects.get(pk=run.task_id).state)


def call(run: Run, key: str = "k", *, wait: bool = True) -> Outcome:
    return run.call("work", connector="tools", key=key, send=lambda op: "done", wait=wait)


def acall(run: Run) -> Outcome:
    async def tool(_: object) -> str:
        return "done"

    return asyncio.run(run.acall("work", connector="tools", key="k", send=tool))


@pytest.fixture
def waiting(in_thread: InThread, tools: None, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a caller on a paused task and answers when it waits."""
    reached = threading.Event()
    look = waiting_module._is_paused

    def looked(task_id: int) -> bool:
        reached.set()
        return look(task_id)

    monkeypatch.setattr(waiting_module, "_is_paused", looked)

    def start(caller: Caller, run: Run) -> Future[Outcome]:
        future = in_thread(caller, run)
        assert reached.wait(HANG_GUARD)
        return future

    return start


@pytest.mark.parametrize("caller", [call, acall])
def test_a_caller_waits_until_it_is_resumed_and_then_sends(ann: User, waiting: Start, caller: Caller) -> None:
    """R33: in the same run as before."""
    run = begin("x", owner=ann)
    assert pause(run.task_id, by=ann, reason="let me look")
    future = waiting(caller, run)
    assert Operation.objects.get().state == "prepared"
    assert not future.done()
    assert resume(run.task_id, by=ann)
    assert future.result(HANG_GUARD).accepted
    run.check()
    task = Task.objects.get(pk=run.task_id)
    assert (task.live_run, task.last_run, task.runs.count()) == (run.number, run.number, 1)


@pytest.mark.parametrize("caller", [call, acall])
def test_stopping_a_paused_task_frees_the_caller_at_once(ann: User, waiting: Start, caller: Caller) -> None:
    run = begin("x", owner=ann)
    pause(run.task_id, by=ann)
    future = waiting(caller, run)
    stop(run.task_id, by=ann)
    assert future.result(HANG_GUARD).ignored
    assert Operation.objects.get().attempts == 0


def test_a_job_that_does_not_wait_is_told_and_comes_back(ann: User, tools: None) -> None:
    run = begin("x", owner=ann)
    pause(run.task_id, by=ann)
    with pytest.raises(Paused):
        call(run, wait=False)
    with pytest.raises(Paused):
        run.check()
    assert not Decision.objects.filter(verb="refuse").exists()
    resume(run.task_id, by=ann)
    assert call(run, wait=False).accepted


def test_what_has_left_goes_on_and_is_admitted(ann: User, tools: None) -> None:
    run = begin("x", owner=ann)
    with run.dispatch("work", connector="tools", key="k") as op:
        pause(run.task_id, by=ann)
        op.succeeded("done")
    assert run.context() == ["done"]


def test_children_are_held_with_their_parents_and_a_parents_resume_does_not_undo_their_own(ann: User) -> None:
    root = begin("root", owner=ann)
    child, other = begin("child", serves=[root]), begin("other", serves=[root])
    grandchild = begin("grandchild", serves=[child])
    pause(other.task_id, by=ann)
    pause(root.task_id, by=ann)
    assert {state(one) for one in (root, child, other, grandchild)} == {"paused"}
    assert not resume(child.task_id, by=ann)  # its parent holds it
    assert resume(root.task_id, by=ann)
    assert (state(child), state(grandchild), state(other)) == ("active", "active", "paused")
    assert resume(other.task_id, by=ann)
    assert state(other) == "active"
    assert list(differences()) == []


def test_a_child_that_another_live_run_needs_is_not_held(ann: User) -> None:
    root, other = begin("root", owner=ann), begin("other", owner=ann)
    shared = begin("shared", serves=[root, other])
    pause(root.task_id, by=ann)
    assert state(shared) == "active"


def test_a_child_of_a_paused_run_is_born_paused(ann: User) -> None:
    root = begin("root", owner=ann)
    pause(root.task_id, by=ann)
    child = begin("child", serves=[root])
    assert state(child) == "paused"
    resume(root.task_id, by=ann)
    assert state(child) == "active"
    assert list(differences()) == []


def test_pausing_twice_and_resuming_twice_is_noted(ann: User) -> None:
    run = begin("x", owner=ann)
    assert (pause(run.task_id, by=ann), pause(run.task_id, by=ann)) == (True, False)
    assert (resume(run.task_id, by=ann), resume(run.task_id, by=ann)) == (True, False)
    effects = Decision.objects.filter(verb__in=["pause", "resume"]).values_list("verb", "effect")
    assert sorted(effects) == [("pause", "applied"), ("pause", "noted"), ("resume", "applied"), ("resume", "noted")]


@pytest.mark.parametrize("verb", [pause, resume])
def test_what_is_over_is_neither_paused_nor_resumed(ann: User, verb: Verb) -> None:
    run = begin("x", owner=ann)
    stop(run.task_id, by=ann)
    assert not verb(run.task_id, by=ann)
    assert state(run) == "stopped"


def test_no_new_run_is_begun_on_a_paused_task_and_a_stop_forgets_the_pause(ann: User) -> None:
    run = begin("x", owner=ann)
    pause(run.task_id, by=ann)
    with pytest.raises(Paused):
        begin(run.task_id)
    stop(run.task_id, by=ann)
    again = begin(run.task_id, by=ann)
    again.check()
    assert list(differences()) == []


def test_it_needs_its_own_right(ann: User, ben: User) -> None:
    run = begin("x", owner=ann)
    with pytest.raises(TaskNotFound):
        pause(run.task_id, by=ben)
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    with pytest.raises(Denied):
        pause(run.task_id, by=User.objects.get(pk=ben.pk))
    assert state(run) == "active"


VERBS: tuple[Verb, ...] = (pause, resume, stop, begin)
End = tuple[tuple[str, ...], str, int | None, tuple[str, ...]]


def told(verb: Verb, run: Run, by: User) -> str:
    """What the person is answered."""
    try:
        answer = verb(run.task_id, by=by)
    except (Paused, Stopped) as refusal:
        return refusal.reason
    return answer.why or "stopped" if isinstance(answer, StopReport) else "begun" if verb is begin else str(answer)


def end_of(run: Run, answers: Sequence[str]) -> End:
    task = Task.objects.get(pk=run.task_id)
    states = RunRow.objects.filter(task=task).order_by("number").values_list("state", flat=True)
    return tuple(answers), task.state, task.live_run, tuple(states)


def one_after_the_other(order: Sequence[Verb], by: User) -> End:
    run = begin("x", owner=by)
    answers = {verb: told(verb, run, by) for verb in order}
    return end_of(run, [answers[verb] for verb in VERBS])


def test_pause_stop_and_begin_at_the_same_instant_end_in_one_state_that_the_facts_give(
    ann: User, in_thread: InThread
) -> None:
    """R4, R33: as one after the other would, in some order, with each answer true of it; and nothing is stuck."""
    possible = {one_after_the_other(order, ann) for order in permutations(VERBS)}
    pair = Pair(in_thread, *(partial(told, verb, by=ann) for verb in VERBS))
    for _ in range(10):
        run = begin("x", owner=ann)
        assert end_of(run, pair.race(run)) in possible
        stop(run.task_id, by=ann)
        assert (state(run), RunRow.objects.filter(task=run.task_id, state="live").count()) == ("stopped", 0)
        begin(run.task_id, by=ann).check()
    pair.end()
    assert list(differences()) == []


def stopped_amid_a_pause(run: Run, in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> Future[Any]:
    """The pause has found the task at work, and not written yet, when Stop is pressed."""
    there, go, apply = threading.Event(), threading.Event(), holds.apply

    def held(*args: Any, **options: Any) -> list[int]:
        there.set()
        assert go.wait(HANG_GUARD)
        return apply(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(holds, "apply", held)
        pausing = in_thread(pause, run.task_id)
        assert there.wait(HANG_GUARD)
        pressed = in_thread(stop, run.task_id)
        if database.is_postgresql():
            eventually(lambda: pressed.done() or waiting_for_locks() > 0, True)
        go.set()
        pausing.result(HANG_GUARD)
    return pressed


def test_a_stop_waits_for_a_pause_that_is_being_written_and_ends_it(
    in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin("x")
    assert stopped_amid_a_pause(run, in_thread, monkeypatch).result(HANG_GUARD).stopped
    assert state(run) == "stopped"
    assert list(differences()) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets one writer at a time")
def test_without_the_lock_a_pause_would_undo_the_stop(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail."""
    run = begin("x")
    monkeypatch.setattr(family, "locked_task", lambda task_id: Task.objects.get(pk=task_id))
    stopped_amid_a_pause(run, in_thread, monkeypatch).result(HANG_GUARD)
    assert state(run) == "paused"


def born_paused(*parents: Run) -> Run:
    return begin("child", serves=list(parents))


def finish(run: Run) -> None:
    run.finish()


def fail(run: Run) -> None:
    run.fail("it broke")


def stopped(run: Run) -> None:
    stop(run.task_id)


class TestNothingIsHeldByWhatIsOver:
    """R33: a pause is of a run. Where that ends, nobody could lift it any more, and what it held would hang."""

    @pytest.mark.parametrize("end", [finish, fail])
    def test_children_that_are_left_go_on_when_their_paused_parent_ends(
        self, ann: User, end: Callable[[Run], None]
    ) -> None:
        parent = begin("parent", owner=ann)
        children = [begin("before", serves=[parent])]
        pause(parent.task_id)
        children.append(born_paused(parent))
        assert {state(child) for child in children} == {"paused"}
        end(parent)
        assert {state(child) for child in children} == {"active"}
        assert not list(differences())

    def test_a_detached_child_goes_on_when_its_paused_parent_is_stopped(self, ann: User) -> None:
        parent = begin("parent", owner=ann)
        pause(parent.task_id)
        child = begin("child", serves=[parent], detached=True)
        assert state(child) == "paused"
        stop(parent.task_id)
        assert state(child) == "active"
        assert not list(differences())

    @pytest.mark.parametrize("end", [finish, stopped])
    def test_one_of_two_parents_that_ends_leaves_it_to_the_other(self, ann: User, end: Callable[[Run], None]) -> None:
        one, two = begin("one", owner=ann), begin("two", owner=ann)
        pause(one.task_id)
        pause(two.task_id)
        child = born_paused(one, two)
        end(one)
        assert state(child) == "paused"
        resume(two.task_id)
        assert state(child) == "active"
        assert not list(differences())

    def test_what_a_stopped_child_had_held_itself_goes_on(self, ann: User) -> None:
        root = begin("root", owner=ann)
        middle = begin("middle", serves=[root])
        pause(middle.task_id)
        detached = begin("detached", serves=[middle], detached=True)
        stop(root.task_id)
        assert (state(middle), state(detached)) == ("stopped", "active")
        assert not list(differences())

    def test_what_a_child_of_a_superseded_run_had_held_goes_on(self, ann: User) -> None:
        root = begin("root", owner=ann)
        middle = begin("middle", serves=[root])
        pause(middle.task_id)
        detached = begin("detached", serves=[middle], detached=True)
        begin(root.task_id)
        assert (state(middle), state(detached)) == ("stopped", "active")

    def test_its_own_pause_stays_when_its_paused_parent_ends(self, ann: User) -> None:
        parent = begin("parent", owner=ann)
        child = begin("child", serves=[parent])
        pause(child.task_id)
        pause(parent.task_id)
        parent.finish()
        assert state(child) == "paused"
        assert resume(child.task_id)
        assert state(child) == "active"

    def test_without_it_they_hang(self, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
        parent = begin("parent", owner=ann)
        pause(parent.task_id)
        child = born_paused(parent)
        monkeypatch.setattr(holds, "apply", lambda *_, **__: [])
        parent.finish()
        monkeypatch.undo()
        assert not resume(parent.task_id)
        assert not resume(child.task_id)
        assert state(child) == "paused"
