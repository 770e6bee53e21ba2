"""How runs begin and end: one live run, one final state, and an answer that agrees with it, whoever is faster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from agentstop.accounts import account
from agentstop.exceptions import Finished, Paused, Stopped, Superseded, TaskNotFound
from agentstop.models import Decision, Task
from agentstop.models import Run as RunRow
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.states import RunState, TaskState
from agentstop.stop import stop
from agentstop.stop_signal import held
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.pair import Pair
from tests.passing import let_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

TRIALS = 100


def run_state(run: Run) -> str:
    return str(RunRow.objects.get(task=run.task_id, number=run.number).state)


def test_finish_against_stop_ends_in_one_state_and_both_answers_agree(in_thread: InThread) -> None:
    pair = Pair(in_thread, lambda run: run.finish(), lambda run: stop(run.task_id))
    for _ in range(TRIALS):
        run = begin("a task")
        finished, report = pair.race(run)
        task = task_of(run)
        assert finished != report.stopped
        assert task.state == (TaskState.FINISHED if finished else TaskState.STOPPED)
        assert run_state(run) == (RunState.FINISHED if finished else RunState.STOPPED)
        assert report.why == ("finished" if finished else "")
        assert task.live_run is None
        applied = Decision.objects.filter(task=task, effect="applied", verb__in=["finish", "stop"])
        assert [decision.verb for decision in applied] == ["finish" if finished else "stop"]
    pair.end()


def test_finish_against_begin_ends_the_run_once(in_thread: InThread) -> None:
    pair = Pair(in_thread, lambda run: run.finish(), lambda run: begin(run.task_id))
    for _ in range(TRIALS // 4):
        run = begin("a task")
        finished, newer = pair.race(run)
        assert run_state(run) == (RunState.FINISHED if finished else RunState.SUPERSEDED)
        task = task_of(run)
        assert (task.state, task.live_run, newer.number) == (TaskState.ACTIVE, 2, 2)
    pair.end()


def test_stop_against_begin_leaves_no_live_run_of_a_stopped_task(in_thread: InThread, ann: User) -> None:
    def begins(run: Run) -> Run | None:
        try:
            return begin(run.task_id)
        except Stopped:
            return None

    pair = Pair(in_thread, lambda run: stop(run.task_id), begins)
    for _ in range(TRIALS // 4):
        run = begin("a task", owner=ann)
        report, newer = pair.race(run)
        assert report.stopped
        assert task_of(run).state == TaskState.STOPPED
        assert not RunRow.objects.filter(task=run.task_id, state=RunState.LIVE).exists()
        assert newer is None or run_state(newer) == RunState.STOPPED
    pair.end()


def test_of_many_who_begin_at_once_one_is_live_and_each_has_a_number_of_its_own(in_thread: InThread) -> None:
    """R27."""
    run, ready = begin("a task"), threading.Barrier(8, timeout=HANG_GUARD)

    def begins() -> int:
        ready.wait()
        return begin(run.task_id).number

    numbers = [each.result(HANG_GUARD) for each in [in_thread(begins) for _ in range(8)]]
    assert sorted(numbers) == list(range(2, 10))
    assert RunRow.objects.get(task=run.task_id, state=RunState.LIVE).number == 9
    assert task_of(run).live_run == 9


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda run: stop(run.task_id), Stopped),
        (lambda run: begin(run.task_id), Superseded),
        (lambda run: run.finish(), Finished),
        (lambda run: run.fail("broken"), Finished),
    ],
    ids=["stop", "begin", "finish", "fail"],
)
def test_whoever_holds_the_run_hears_why_it_is_over(end: Callable[[Run], object], reason: type[Exception]) -> None:
    run = begin("a task")
    with held(run.task_id, run.number) as signal:
        assert not signal.is_set()
        run.check()
        end(run)
        assert signal.wait(HANG_GUARD) and signal.reason is reason
        with pytest.raises(reason):
            signal.raise_if_set()
    with pytest.raises(reason, match="go no further"):
        run.check()


def test_who_begins_to_hold_a_run_that_is_over_hears_it_at_once() -> None:
    run = begin("a task")
    stop(run.task_id)
    with held(run.task_id, run.number) as signal:
        assert signal.reason is Stopped


def test_a_paused_task_is_not_over() -> None:
    run = begin("a task")
    Task.objects.filter(pk=run.task_id).update(state=TaskState.PAUSED)
    with held(run.task_id, run.number) as signal:
        assert not signal.is_set()
    with pytest.raises(Paused):
        run.check()


@pytest.mark.parametrize(
    ("leaves", "state", "halted"),
    [
        (None, RunState.FINISHED, True),
        (ValueError("no idea"), RunState.FAILED, True),
    ],
    ids=["by its end", "by an error"],
)
def test_a_run_ends_with_its_block(leaves: Exception | None, state: RunState, halted: bool) -> None:
    run = begin("a task")
    try:
        with run:
            if leaves is not None:
                raise leaves
    except ValueError:
        pass
    row = RunRow.objects.get()
    assert (row.state, row.halted_at is not None) == (state, halted)
    assert row.error == ("ValueError: no idea" if leaves else "")
    assert task_of(run).state == TaskState.FINISHED


def test_an_agent_that_hears_of_the_stop_has_halted_and_not_finished() -> None:
    """R2."""
    run = begin("a task")
    with pytest.raises(Stopped), run:
        stop(run.task_id)
        run.check()
    row = RunRow.objects.get()
    assert (row.state, row.halted_at is not None) == (RunState.STOPPED, True)
    assert task_of(run).state == TaskState.STOPPED


def test_ending_twice_is_noted_and_changes_nothing() -> None:
    run = begin("a task")
    assert run.finish()
    ended = RunRow.objects.get()
    assert not run.finish()
    assert not run.fail("too late")
    again = RunRow.objects.get()
    assert (again.state, again.ended_at, again.halted_at) == (ended.state, ended.ended_at, ended.halted_at)
    effects = Decision.objects.filter(verb__in=["finish", "fail"]).order_by("pk").values_list("verb", "effect")
    assert list(effects) == [("finish", "applied"), ("finish", "noted"), ("fail", "noted")]


def test_an_old_run_that_ends_does_not_end_the_new_one() -> None:
    old = begin("a task")
    new = begin(old.task_id)
    assert not old.finish()
    assert task_of(new).live_run == new.number
    new.check()


def test_a_check_is_a_sign_of_life_that_is_written_now_and_then() -> None:
    run = begin("a task")
    began = RunRow.objects.get().seen_at
    run.check()
    assert RunRow.objects.get().seen_at == began
    let_pass(run.task_id, 10)
    run.check()
    assert RunRow.objects.get().seen_at >= began
    assert RunRow.objects.get().seen_at - RunRow.objects.get().began_at >= timedelta(seconds=10)


def test_a_task_belongs_to_an_object_of_the_host(ann: User) -> None:
    """R44."""
    run = begin("about ann", owner=ann, subject=ann)
    task = task_of(run)
    assert (task.subject, task.owner) == (ann, ann)


@pytest.mark.parametrize("title", ["", " ", "a\x00b", "\ud800", "t" * 256])
def test_a_title_is_a_line_of_clean_text(title: str) -> None:
    with pytest.raises(ValueError, match="title"):
        begin(title)
    assert not Task.objects.exists()


def test_what_belongs_to_a_new_task_is_not_given_to_an_old_one(ann: User) -> None:
    run = begin("a task")
    with pytest.raises(ValueError, match="new task"):
        begin(run.task_id, owner=ann)
    with pytest.raises(TaskNotFound):
        begin(10**9)


def test_what_a_superseded_run_has_sent_goes_on_for_the_newer_one_and_a_stop_reaches_it(ann: User) -> None:
    """R25, R28: the task goes on, so nothing of its own is taken back; what its children have sent is, as they stop."""
    run = begin("a task", owner=ann)
    child = begin("child", serves=[run])
    done, still = (run.dispatch("work", connector="tools", key=key) for key in ("done", "still"))
    with done as one, still as other, child.dispatch("work", connector="tools", key="k") as below:
        for op in (one, other, below):
            op.accepted(op.idempotency_key)
        newer = begin(run.task_id)
        asked = Decision.objects.filter(verb="cancel").values_list("task", flat=True)
        assert list(asked) == [child.task_id]
        assert labels(run) == {Label.IN_PROGRESS}
        one.succeeded("it is there")
    again = newer.call("work", connector="tools", key="done", send=lambda op: "sent again")
    assert (again.accepted, newer.context()) == (True, ["it is there"])
    left = stop(run.task_id, by=ann).open
    asked = Decision.objects.filter(verb="cancel", task=run.task_id).values_list("operation", flat=True)
    assert len(left) == 1 and tuple(asked) == left


def labels(run: Run) -> set[Label]:
    found = account.load(run.task_id)
    assert found is not None
    return {operation.reading.label for operation in report.tell(found).operations}
