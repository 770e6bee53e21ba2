"""Spawn keys name a child within one run, and a parent waits for a child until it has ended or was stopped (R31)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError

from agentstop import children, liveness, sending, spawning, waiting
from agentstop.exceptions import ChildStopped, Denied, Finished, Refused, Stopped, Superseded, TaskNotFound
from agentstop.lifecycle import create
from agentstop.models import Decision, ServingLink, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.runs import Run, abegin, begin, serve
from agentstop.spawning import Served
from agentstop.states import RunState
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def parent(ann: User) -> Run:
    return begin("parent", owner=ann)


def spawn(parent: Run, key: str = "research:q3", **options: Any) -> Run:
    return begin("child", serves=[parent], key=key, **options)


class TestSpawnKeys:
    def test_a_redelivered_spawn_is_a_new_run_of_the_same_child(self, parent: Run) -> None:
        first = spawn(parent)
        again = spawn(parent)
        assert (again.task_id, again.number) == (first.task_id, 2)
        assert list(RunRow.objects.filter(task=first.task_id).values_list("state", flat=True)) == ["superseded", "live"]
        with pytest.raises(Superseded):
            first.check()
        again.check()
        assert ServingLink.objects.get().key == "research:q3"
        assert list(differences()) == []

    def test_another_key_and_no_key_are_other_children(self, parent: Run) -> None:
        runs = [spawn(parent, key) for key in ("research:q3", "other", "", "")]
        assert len({run.task_id for run in runs}) == 4

    def test_another_run_of_the_parent_spawns_a_child_of_its_own(self, parent: Run) -> None:
        """The old run's child was left behind and stopped with it: the key holds within one run."""
        first = spawn(parent)
        newer = begin(parent.task_id)
        second = spawn(newer)
        assert second.task_id != first.task_id
        assert [task_of(run).state for run in (first, second)] == ["stopped", "active"]

    def test_a_child_that_the_new_run_keeps_keeps_its_key(self, parent: Run) -> None:
        first = spawn(parent)
        newer = begin(parent.task_id, keep=[first.task_id])
        assert spawn(newer).task_id == first.task_id

    def test_a_child_that_has_finished_is_answered_as_it_is(self, parent: Run) -> None:
        first = spawn(parent)
        first.finish()
        again = spawn(parent)
        assert again == first
        assert task_of(first).state == "finished"
        with pytest.raises(Finished):
            again.check()
        assert parent.wait_for(again) is RunState.FINISHED

    def test_a_child_that_has_failed_is_tried_again(self, parent: Run) -> None:
        first = spawn(parent)
        first.fail("no idea")
        again = spawn(parent)
        assert (again.task_id, again.number) == (first.task_id, 2)
        again.check()

    def test_a_child_that_was_stopped_by_itself_is_not_spawned_again_in_that_run(self, ann: User, parent: Run) -> None:
        child = spawn(parent)
        stop(child.task_id, by=ann)
        for by in (None, ann):
            with pytest.raises(ChildStopped, match="may not be spawned again under the same key in that run") as told:
                spawn(parent, by=by)
            assert (told.value.child, told.value.reason) == (child.task_id, "child_stopped")
        assert isinstance(told.value, Refused)
        assert Task.objects.count() == 2
        tries = Decision.objects.filter(task=child.task_id, verb="start", effect="denied")
        assert [one.detail for one in tries] == [{"why": "child_stopped"}] * 2
        parent.check()
        assert list(differences()) == []

    def test_a_person_who_begins_it_anew_lets_it_be_spawned_again(self, ann: User, parent: Run) -> None:
        child = spawn(parent)
        stop(child.task_id, by=ann)
        begin(child.task_id, by=ann)
        assert spawn(parent).number == 3

    def test_a_strangers_press_stops_nothing_and_forbids_nothing(self, ben: User, parent: Run) -> None:
        child = spawn(parent)
        with pytest.raises(TaskNotFound):
            stop(child.task_id, by=ben)
        assert spawn(parent).number == 2

    def test_a_late_press_forbids_nothing(self, ann: User, parent: Run) -> None:
        """It named a run that another had taken over from; what is stopped later is stopped with the parent."""
        child = spawn(parent)
        spawn(parent)
        assert stop(child.task_id, by=ann, run=1).why == "newer_run"
        stop(parent.task_id, by=ann)
        newer = begin(parent.task_id, by=ann)
        assert begin(child.task_id, serves=[newer]).number == 3

    def test_after_the_parents_stop_a_redelivered_spawn_is_refused_and_makes_no_task(
        self, ann: User, parent: Run
    ) -> None:
        child = spawn(parent)
        finished = spawn(parent, "finished")
        finished.finish()
        stop(parent.task_id, by=ann)
        for key in ("research:q3", "finished"):
            with pytest.raises(Stopped, match="no run that it would serve is live"):
                spawn(parent, key)
        with pytest.raises(Stopped, match="born stopped"):
            spawn(parent, "late")
        with pytest.raises(Stopped, match="no run that it would serve is live"):
            spawn(parent, "late")
        assert Task.objects.filter(title="child").count() == 3
        assert task_of(child).last_run == 1
        assert list(differences()) == []

    def test_eight_who_spawn_at_once_get_one_child(self, parent: Run, in_thread: InThread) -> None:
        go = threading.Barrier(8, timeout=HANG_GUARD)

        def spawns() -> Run:
            go.wait()
            return spawn(parent)

        runs = [future.result(HANG_GUARD) for future in [in_thread(spawns) for _ in range(8)]]
        assert {run.task_id for run in runs} == {runs[0].task_id}
        assert sorted(run.number for run in runs) == list(range(1, 9))
        assert RunRow.objects.filter(task=runs[0].task_id, state="live").count() == 1

    def test_where_the_look_at_the_key_is_missing_the_database_refuses_a_second_child(
        self, parent: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spawn(parent)
        monkeypatch.setattr(spawning, "spawned", lambda serves, key: None)
        with pytest.raises(IntegrityError):
            spawn(parent)
        assert Task.objects.count() == 2

    def test_stop_against_spawning_again_leaves_no_child_at_work(
        self, ann: User, parent: Run, in_thread: InThread
    ) -> None:
        for number in range(10):
            child, go = spawn(parent, f"child {number}"), threading.Barrier(2, timeout=HANG_GUARD)

            def spawns(go: threading.Barrier = go, number: int = number) -> Run | None:
                go.wait()
                try:
                    return spawn(parent, f"child {number}")
                except ChildStopped:
                    return None

            again = in_thread(spawns)
            go.wait()
            assert stop(child.task_id, by=ann).stopped
            again.result(HANG_GUARD)
            assert task_of(child).state == "stopped"
        assert list(differences()) == []

    @pytest.mark.parametrize("many", [0, 2])
    def test_a_key_belongs_to_one_run(self, ann: User, parent: Run, many: int) -> None:
        runs = [parent, begin("other", owner=ann)][:many]
        with pytest.raises(ValueError, match="within one run"):
            begin("child", owner=ann, serves=runs, key="k")
        assert not Task.objects.filter(title="child").exists()

    @pytest.mark.parametrize("key", ["a\x00b", "\ud800", " ", "k" * 256])
    def test_a_key_is_a_line_of_clean_text(self, parent: Run, key: str) -> None:
        with pytest.raises(ValueError, match="key"):
            spawn(parent, key)

    def test_a_key_belongs_to_a_title(self, parent: Run) -> None:
        with pytest.raises(ValueError, match="key belong to a new task"):
            begin(parent.task_id, key="k")

    def test_a_key_does_not_turn_an_attached_child_into_a_detached_one(self, parent: Run) -> None:
        spawn(parent)
        with pytest.raises(ValueError, match="detached=False"):
            spawn(parent, detached=True)

    def test_nobody_reaches_somebody_elses_child_by_its_key(self, ben: User, parent: Run) -> None:
        spawn(parent)
        with pytest.raises(Denied):
            spawn(parent, owner=ben)
        assert RunRow.objects.count() == 2


Wait = Callable[[Run, "Run | Task | int"], RunState]
Start = Callable[..., Future[Any]]


def waits(parent: Run, child: Run | Task | int) -> RunState:
    return parent.wait_for(child)


def awaits(parent: Run, child: Run | Task | int) -> RunState:
    return asyncio.run(parent.await_for(child))


@pytest.fixture(params=[waits, awaits])
def wait(request: pytest.FixtureRequest) -> Wait:
    found: Wait = request.param
    return found


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when somebody waits: they have looked once, and found nothing."""
    event, look = threading.Event(), children._ended

    def looks(parent: Served, child: int, number: int) -> RunState | None:
        found = look(parent, child, number)
        event.set()
        return found

    monkeypatch.setattr(children, "_ended", looks)
    return event


class TestWaiting:
    @pytest.fixture
    def child(self, parent: Run) -> Run:
        return begin("child", serves=[parent])

    @pytest.fixture
    def waiting(self, in_thread: InThread, parent: Run, wait: Wait, looked: threading.Event) -> Start:
        """Starts to wait, and answers when that has begun; `raises` is what it is meant to end by."""

        def start(child: Run | Task | int, raises: type[Exception] | None = None) -> Future[Any]:
            how = (wait,) if raises is None else (pytest.raises, raises, wait)
            future = in_thread(*how, parent, child)
            assert looked.wait(HANG_GUARD)
            assert not future.done()
            return future

        return start

    @pytest.mark.parametrize(("end", "state"), [(Run.finish, "finished"), (Run.fail, "failed")])
    def test_it_ends_with_the_child(self, waiting: Start, child: Run, end: Callable[[Run], object], state: str) -> None:
        future = waiting(child)
        end(child)
        assert future.result(HANG_GUARD) == state

    def test_what_has_ended_is_answered_at_once(self, parent: Run, child: Run, wait: Wait) -> None:
        child.fail("no idea")
        assert wait(parent, child) is RunState.FAILED
        assert wait(parent, child.task_id) is RunState.FAILED
        assert wait(parent, task_of(child)) is RunState.FAILED

    def test_a_child_that_restarts_is_still_the_child(self, waiting: Start, child: Run) -> None:
        future = waiting(child)
        again = begin(child.task_id)
        assert not child.finish()
        again.finish()
        assert future.result(HANG_GUARD) is RunState.FINISHED

    def test_a_named_run_that_has_ended_is_answered_though_a_newer_one_works(
        self, parent: Run, child: Run, wait: Wait
    ) -> None:
        child.fail("no idea")
        begin(child.task_id)
        assert wait(parent, child) is RunState.FAILED

    def test_a_child_that_has_not_begun_is_waited_for(self, ann: User, parent: Run, waiting: Start) -> None:
        queued = create("queued", owner=ann)
        serve(queued, parent)
        future = waiting(queued)
        begin(queued.pk).finish()
        assert future.result(HANG_GUARD) is RunState.FINISHED

    @pytest.mark.parametrize("begun", [True, False])
    def test_the_parent_of_a_child_that_was_stopped_alone_is_told_and_goes_on(
        self, ann: User, parent: Run, child: Run, waiting: Start, begun: bool
    ) -> None:
        if not begun:
            task = create("queued", owner=ann)
            serve(task, parent)
            child = Run(task.pk, 0)
        future = waiting(child if begun else child.task_id, ChildStopped)
        stop(child.task_id, by=ann)
        told = future.result(HANG_GUARD).value
        assert (told.child, told.reason) == (child.task_id, "child_stopped")
        parent.check()

    def test_where_both_are_stopped_it_is_the_parents_own_stop(
        self, ann: User, parent: Run, child: Run, waiting: Start
    ) -> None:
        future = waiting(child, Stopped)
        assert stop(parent.task_id, by=ann).descendants == 1
        future.result(HANG_GUARD)

    def test_a_stop_between_the_two_looks_is_the_parents_own_too_and_in_the_other_order_it_would_not_be(
        self, ann: User, parent: Run, child: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The child's state is read first: what is found stopped there has stopped the parent before it is read."""
        state, check = children._state, liveness.still_live

        def read_then_stop(child: int, number: int) -> RunState | None:
            found = state(child, number)
            stop(parent.task_id, by=ann)
            return found

        def check_then_stop(task: int, number: int) -> None:
            check(task, number)
            stop(parent.task_id, by=ann)

        monkeypatch.setattr(children, "_state", read_then_stop)
        with pytest.raises(Stopped):
            parent.wait_for(child)
        monkeypatch.undo()
        with pytest.raises(Stopped):
            parent.wait_for(child)

        root = begin("root", owner=ann)
        other = begin("other", serves=[root])

        def other_order(parent: Served, child: int, number: int) -> RunState | None:
            check(parent.task_id, parent.number)
            stop(parent.task_id, by=ann)
            if state(child, number) is RunState.STOPPED:
                raise ChildStopped("wrong: the parent itself was stopped")
            return None

        monkeypatch.setattr(children, "_ended", other_order)
        with pytest.raises(ChildStopped, match="wrong"):
            root.wait_for(other)

    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            (lambda parent: begin(parent.task_id), Superseded),
            (lambda parent: parent.finish(), Finished),
        ],
        ids=["superseded", "finished"],
    )
    def test_it_ends_with_the_parents_own_run(
        self,
        parent: Run,
        child: Run,
        waiting: Start,
        end: Callable[[Run], object],
        reason: type[Exception],
    ) -> None:
        future = waiting(child, reason)
        end(parent)
        future.result(HANG_GUARD)

    def test_a_stopped_parent_does_not_go_on_though_its_child_ended_well(
        self, ann: User, parent: Run, wait: Wait
    ) -> None:
        child = begin("child", serves=[parent], detached=True)
        stop(parent.task_id, by=ann)
        child.finish()
        with pytest.raises(Stopped):
            wait(parent, child)

    def test_a_paused_parent_waits_on_and_is_answered(self, ann: User, parent: Run, child: Run, waiting: Start) -> None:
        future = waiting(child)
        pause(parent.task_id, by=ann)
        child.finish()
        assert future.result(HANG_GUARD) is RunState.FINISHED
        resume(parent.task_id, by=ann)
        parent.check()

    def test_it_gives_up_after_the_time_that_was_given(self, parent: Run, child: Run) -> None:
        with pytest.raises(TimeoutError):
            parent.wait_for(child, timeout=0.01)
        with pytest.raises(TimeoutError):
            asyncio.run(parent.await_for(child, timeout=0.01))
        parent.check()

    def test_coroutines_that_wait_hold_no_thread(self, parent: Run, looked: threading.Event) -> None:
        """Five for each thread of the pool wait at once, and the pool still answers."""
        many = sending.DOMAIN_THREADS * 5

        async def agent() -> list[RunState]:
            runs = [await abegin(f"child {number}", serves=[parent]) for number in range(many)]
            waiting = [asyncio.create_task(parent.await_for(run)) for run in runs]
            assert await asyncio.to_thread(looked.wait, HANG_GUARD)
            await asyncio.wait_for(parent.acheck(), HANG_GUARD)
            for run in runs:
                await run.afinish()
            return await asyncio.wait_for(asyncio.gather(*waiting), HANG_GUARD)

        assert asyncio.run(agent()) == [RunState.FINISHED] * many

    def test_a_lost_wake_is_made_good(
        self, parent: Run, child: Run, waiting: Start, monkeypatch: pytest.MonkeyPatch,
        settings: Any,
    ) -> None:  # fmt: skip
        settings.AGENTSTOP_SWEEP = 0.05
        monkeypatch.setattr("agentstop.wake.Hub.deliver", lambda *_: None)
        future = waiting(child)
        child.finish()
        assert future.result(HANG_GUARD) is RunState.FINISHED

    def test_it_waits_for_its_own_children_alone(self, ann: User, parent: Run, child: Run, wait: Wait) -> None:
        stranger = begin("stranger", owner=ann)
        with pytest.raises(ValueError, match="does not serve run 1"):
            wait(parent, stranger)
        with pytest.raises(ValueError, match="does not serve run 1"):
            wait(parent, parent)
        with pytest.raises(ValueError, match="has no run 7"):
            wait(parent, Run(child.task_id, 7))
        with pytest.raises(TaskNotFound):
            wait(parent, 10**9)

    def test_nobody_is_left_listening(self, parent: Run, child: Run, waiting: Start) -> None:
        from agentstop import wake

        future = waiting(child)
        child.finish()
        future.result(HANG_GUARD)
        assert wake._hub()._subscribers == {}


def test_a_time_is_over_though_the_wakes_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError, match="has not come"):
        waiting._pause(0.0)
