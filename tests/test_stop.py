"""Stop: one durable decision, idempotent and monotone, with an answer that accounts for every operation."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django.fixtures import Settings

from agentstop import lifecycle
from agentstop.bulk import stop_all
from agentstop.exceptions import Denied, RunNotFound, Stopped, TaskNotFound
from agentstop.models import Decision, Operation, Task
from agentstop.runs import Run, begin
from agentstop.states import OperationState, RunState, TaskState
from agentstop.stop import StopReport, astop, stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.nonsense import nonsense
from tests.observed import of_key, task_of
from tests.tools import Counting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

PRESSES = 12


@pytest.fixture
def run(ann: User) -> Run:
    return begin("a task", owner=ann)


def type_and_size(value: Any) -> str:
    """Python refuses to write out the longest of the numbers."""
    return f"{type(value).__name__}-{value.bit_length() if type(value) is int and value > 99 else value}"


def decisions(task: int, verb: str = "stop") -> list[tuple[str, str]]:
    """Effect, and why where it was only noted."""
    found = Decision.objects.filter(task=task, verb=verb).order_by("pk")
    return [(decision.effect, decision.detail.get("why", "")) for decision in found]


def test_the_answer_accounts_for_every_operation(run: Run, ann: User) -> None:
    """R2. R6."""
    for key, how in {"open": "accepted", "lost": "lost", "done": "succeeded", "unsent": "unsent"}.items():
        with run.dispatch("write", connector="tools", key=key) as op:
            getattr(op, how)()
    run.prepare("write", connector="tools", key="listed")
    report = stop(run.task_id, by=ann, reason="enough")
    ids = dict(Operation.objects.values_list("key", "pk"))
    assert report.stopped and report.why == ""
    assert set(report.open) == {ids["open"], ids["lost"]}
    assert set(report.never_sent) == {ids["unsent"], ids["listed"]}
    task = task_of(run)
    assert (task.state, task.live_run) == (TaskState.STOPPED, None)
    assert (task.stopped_at, task.stopped_by, task.stop_reason) == (report.at, ann, "enough")
    assert task.stop_decision_id == report.decision
    assert task.runs.get().state == RunState.STOPPED
    assert list(differences()) == []


def test_the_first_of_many_presses_counts_and_the_others_are_noted(run: Run, ann: User, in_thread: InThread) -> None:
    """R4."""
    ready = threading.Barrier(PRESSES, timeout=HANG_GUARD)

    def press(number: int) -> StopReport:
        ready.wait()
        return stop(run.task_id, by=ann, reason=f"press {number}")

    pressed = [in_thread(press, number) for number in range(PRESSES)]
    reports = [each.result(HANG_GUARD) for each in pressed]
    first = next(report for report in reports if report.stopped)
    assert [report.why for report in reports if report is not first] == ["already_stopped"] * (PRESSES - 1)
    assert task_of(run).stopped_at == first.at
    assert sorted(decisions(run.task_id)) == [("applied", ""), *[("noted", "already_stopped")] * (PRESSES - 1)]


def test_a_press_that_names_an_older_run_stops_nothing(run: Run, ann: User) -> None:
    newer = begin(run.task_id)
    report = stop(run.task_id, by=ann, run=run.number)
    assert (report.stopped, report.why) == (False, "newer_run")
    assert task_of(run).live_run == newer.number
    assert newer.call("write", connector="tools", key="k", send=Counting("a")).accepted
    assert stop(run.task_id, by=ann, run=newer.number).stopped
    assert decisions(run.task_id) == [("noted", "newer_run"), ("applied", "")]


@pytest.mark.parametrize("number", [99, 2, -1, 10**30, 10**5000, "1", 1.5, 1.0, True, False, [1]], ids=type_and_size)
def test_a_press_that_names_a_run_that_never_was_stops_and_records_nothing(run: Run, ann: User, number: Any) -> None:
    for by in (ann, None):
        with pytest.raises(RunNotFound, match=f"There is no run .* of task {run.task_id}. Nothing was stopped."):
            stop(run.task_id, by=by, run=number)
    bulk = stop_all(ann, by=ann, seen={run.task_id: number})
    assert isinstance(bulk.answers[0].error, RunNotFound)
    assert (task_of(run).state, decisions(run.task_id)) == (TaskState.ACTIVE, [])


@pytest.mark.parametrize("queued", [0, 1])
def test_a_press_on_a_task_that_has_no_run_yet_means_the_first(ann: User, queued: int) -> None:
    task = lifecycle.create("queued", owner=ann)
    with pytest.raises(RunNotFound, match="There is no run 2"):
        stop(task, by=ann, run=2)
    assert stop(task, by=ann, run=queued).stopped


def test_a_finished_task_stays_finished_and_what_works_for_it_is_cancelled(run: Run, settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = {"odd": nonsense()}
    with run.dispatch("write", connector="odd", key="k") as op:
        op.accepted("r")
    run.finish()
    report = stop(run.task_id)
    assert (report.stopped, report.why, report.open) == (False, "finished", (op.id,))
    assert task_of(run).state == TaskState.FINISHED
    assert of_key(run.task_id, "k").cancellation == "requested"
    again = stop(run.task_id)
    assert again.why == "finished"
    assert decisions(run.task_id, "cancel") == [("applied", "")]  # asked once, however often Stop is pressed


def test_a_task_that_never_started_can_be_stopped_and_is_not_started_by_its_queue(ann: User) -> None:
    """R5."""
    task = lifecycle.create("queued", owner=ann)
    report = stop(task, by=ann)
    assert report.stopped and report.open == report.never_sent == ()
    with pytest.raises(Stopped, match="Only a person"):
        begin(task)
    assert Task.objects.get().last_run == 0
    assert decisions(task.pk, "start") == [("denied", "stopped")]


def test_a_paused_task_is_stopped_at_once(run: Run, ann: User) -> None:
    Task.objects.filter(pk=run.task_id).update(state=TaskState.PAUSED)
    assert stop(run.task_id, by=ann).stopped
    assert task_of(run).state == TaskState.STOPPED


def test_only_a_person_with_the_right_begins_again(run: Run, ann: User, ben: User, olga: User) -> None:
    """R4: no code un-stops a task."""
    stop(run.task_id)
    for by, error in [(None, Stopped), (ben, TaskNotFound)]:
        with pytest.raises(error):
            begin(run.task_id, by=by)
    assert task_of(run).state == TaskState.STOPPED
    run.halted()
    assert not run.finish()
    assert task_of(run).state == TaskState.STOPPED
    newer = begin(run.task_id, by=olga)
    task = task_of(run)
    assert (task.state, task.live_run, task.stopped_at) == (TaskState.ACTIVE, newer.number, None)
    assert task.runs.get(number=newer.number).begun_by == olga


def test_what_was_refused_is_sent_by_the_new_run_when_that_asks_for_it(run: Run, ann: User) -> None:
    """R9, R10."""
    stop(run.task_id)
    tool = Counting("a")
    assert run.call("write", connector="tools", key="k", send=tool).ignored
    newer = begin(run.task_id, by=ann)
    assert newer.call("write", connector="tools", key="k", send=tool).accepted
    assert tool.writes == 1
    assert of_key(run.task_id, "k").operation.attempts == 1


def test_a_viewer_and_a_stranger_are_denied_on_record(run: Run, ben: User) -> None:
    """R35, R36."""
    with pytest.raises(TaskNotFound, match="for you"):
        stop(run.task_id, by=ben, reason="mine")
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    with pytest.raises(Denied, match="not stop it"):
        stop(run.task_id, by=User.objects.get(pk=ben.pk), reason="mine")
    assert task_of(run).state == TaskState.ACTIVE
    denied = Decision.objects.filter(task=run.task_id, verb="stop", effect="denied")
    assert list(denied.values_list("by", "reason")) == [(ben.pk, "mine")] * 2


def test_an_operator_who_stops_is_named(run: Run, olga: User) -> None:
    assert stop(run.task_id, by=olga, reason="too loud\x00").stopped
    task = task_of(run)
    assert (task.stopped_by, task.stop_reason) == (olga, "too loud�")


def test_it_can_be_awaited(run: Run, in_thread: InThread) -> None:
    report = in_thread(lambda: asyncio.run(astop(run.task_id, policy="budget"))).result(HANG_GUARD)
    assert report.stopped
    assert Decision.objects.get(pk=report.decision).policy == "budget"


def test_a_stop_leaves_other_tasks_and_other_users_alone(run: Run, ben: User) -> None:
    """R34."""
    other, foreign = begin("another", owner=task_of(run).owner), begin("a third", owner=ben)
    stop(run.task_id)
    for each in (other, foreign):
        each.check()
        assert each.call("write", connector="tools", key="k", send=Counting("a")).accepted
        assert of_key(each.task_id, "k").state is OperationState.SUCCEEDED
