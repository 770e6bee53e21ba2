"""Signals for hosts: each once, after the commit, with nothing for what was rolled back, and harmless when it fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.dispatch import Signal
from django.dispatch.dispatcher import receiver

from agentstop import database, settle, signals, storing, wake
from agentstop.exceptions import Denied, Stopped, TaskNotFound
from agentstop.models import Decision, Operation, Task
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin, serve
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.passing import let_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

ALL = {name: value for name, value in vars(signals).items() if isinstance(value, Signal)}
Told = list[tuple[str, dict[str, Any]]]


def named(told: Told, name: str) -> list[dict[str, Any]]:
    return [facts for each, facts in told if each == name]


@pytest.fixture
def told() -> Iterator[Told]:
    """What was sent, in order."""
    heard: Told = []

    def listen(name: str) -> Callable[..., None]:
        def hear(sender: type, **facts: Any) -> None:
            del facts["signal"]
            assert not connection.in_atomic_block, "sent before the commit"
            heard.append((name, {"sender": sender.__name__, **facts}))

        return hear

    receivers = {name: listen(name) for name in ALL}
    for name, hear in receivers.items():
        ALL[name].connect(hear)
    yield heard
    for name, hear in receivers.items():
        ALL[name].disconnect(hear)


def names(told: Told) -> list[str]:
    return [name for name, _ in told]


class TestRunsAndTasks:
    def test_a_run_that_begins_and_ends_is_told_once_each(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        again = begin(run.task_id, by=ann)
        again.fail("no idea")
        assert not again.finish()
        first, second = named(told, "run_begun")
        assert first == {
            "sender": "Run",
            "task": run.task_id,
            "run": 1,
            "by": None,
            "superseded": None,
            "at": first["at"],
        }
        assert second == {
            "sender": "Run",
            "task": run.task_id,
            "run": 2,
            "by": ann,
            "superseded": 1,
            "at": second["at"],
        }
        [ended] = named(told, "run_ended")
        assert (ended["run"], ended["state"], ended["error"]) == (2, "failed", "no idea")
        assert names(told) == ["run_begun", "run_begun", "run_ended"]

    def test_a_stop_names_all_that_it_has_stopped_once(self, told: Told, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        leaf = begin("leaf", serves=[child])
        report = stop(root.task_id, by=ann, reason="enough")
        stop(root.task_id, by=ann)
        stop(child.task_id, by=ann)
        [stopped] = named(told, "tasks_stopped")
        assert stopped == {
            "sender": "Task",
            "tasks": (root.task_id, child.task_id, leaf.task_id),
            "task": root.task_id,
            "decision": report.decision,
            "by": ann,
            "policy": "",
            "reason": "enough",
            "at": report.at,
        }

    def test_a_stop_of_a_finished_task_names_its_children_alone(self, told: Told, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        root.finish()
        stop(root.task_id, policy="budget")
        [stopped] = named(told, "tasks_stopped")
        assert (stopped["tasks"], stopped["task"], stopped["policy"]) == ((child.task_id,), root.task_id, "budget")

    def test_children_that_a_new_run_leaves_behind_and_one_that_is_born_stopped(self, told: Told, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        begin(root.task_id)
        with pytest.raises(Stopped):
            begin("late", serves=[root])
        left, born = named(told, "tasks_stopped")
        start = Decision.objects.get(task=root.task_id, verb="start", run=2)
        assert (left["tasks"], left["decision"]) == ((child.task_id,), start.pk)
        assert born["tasks"] == (Task.objects.get(title="late").pk,)

    def test_pause_and_resume_name_those_that_are_held_and_go_on(self, told: Told, ann: User) -> None:
        root = begin("root", owner=ann)
        child, own = begin("child", serves=[root]), begin("own", serves=[root])
        pause(own.task_id, by=ann)
        pause(root.task_id, by=ann, reason="look")
        pause(root.task_id, by=ann)
        late = begin("late", serves=[root])
        resume(root.task_id, by=ann)
        resume(root.task_id, by=ann)
        paused = [facts["tasks"] for facts in named(told, "tasks_paused")]
        assert paused == [(own.task_id,), (root.task_id, child.task_id), (late.task_id,)]
        [resumed] = named(told, "tasks_resumed")
        assert (resumed["tasks"][0], set(resumed["tasks"])) == (
            root.task_id, {root.task_id, child.task_id, late.task_id},
        )  # fmt: skip
        assert resumed["by"] == ann

    def test_what_was_denied_is_told(self, told: Told, ann: User, ben: User) -> None:
        run = begin("Report", owner=ann)
        with pytest.raises((Denied, TaskNotFound)):
            stop(run.task_id, by=ben, reason="mine")
        [denied] = named(told, "decision_denied")
        assert (denied["task"], denied["verb"], denied["by"], denied["reason"]) == (run.task_id, "stop", ben, "mine")
        assert names(told) == ["run_begun", "decision_denied"]


class TestOperations:
    def lost(self, run: Run, key: str = "k") -> Operation:
        with pytest.raises(OSError, match="gone"), run.dispatch("work", connector="tools", key=key):
            raise OSError("gone")
        return Operation.objects.get(task=run.task_id, key=key)

    def hear(self, operation: Operation, claim: Claim) -> None:
        settle.record(operation.pk, [Heard(claim, Source.READ_BACK, database.now())])

    def test_an_unknown_that_is_settled_after_the_stop(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        operation = self.lost(run)
        pressed = stop(run.task_id, by=ann)
        self.hear(operation, Claim.SUCCEEDED)
        self.hear(operation, Claim.SUCCEEDED)
        [settled] = named(told, "operation_settled")
        assert settled == {
            "sender": "Operation",
            "task": run.task_id,
            "operation": operation.pk,
            "before": "unknown",
            "after": "succeeded",
            "stopped_at": pressed.at,
            "at": settled["at"],
        }

    def test_what_succeeds_while_the_task_runs(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        run.call("work", connector="tools", key="k", send=lambda op: "done")
        [settled] = named(told, "operation_settled")
        assert (settled["before"], settled["after"], settled["stopped_at"]) == ("sending", "succeeded", None)

    def test_what_nobody_has_folded_since_time_made_it_unknown_was_unknown(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        with run.dispatch("work", connector="tools", key="k") as op:
            let_pass(run.task_id, 3600)
            assert Operation.objects.get().state == "sending"
            settle.record(op.id, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
            op.succeeded()
        [settled] = named(told, "operation_settled")
        assert (settled["before"], settled["after"]) == ("unknown", "succeeded")

    def test_what_was_settled_and_is_contradicted(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        with run.dispatch("work", connector="tools", key="k") as op:
            op.succeeded(ref="7")
        settle.record(op.id, [Heard(Claim.CANCELLED, Source.PROVIDER, database.now(), ref="7")])
        states = [(facts["before"], facts["after"]) for facts in named(told, "operation_settled")]
        assert states == [("sending", "succeeded"), ("succeeded", "unknown")]

    def test_signs_of_life_refusals_and_lost_answers_settle_nothing(self, told: Told, ann: User) -> None:
        run = begin("Report", owner=ann)
        self.lost(run)
        with run.dispatch("work", connector="tools", key="other") as op:
            op.accepted("7")
            op.progress(0.5)
        run.prepare("work", connector="tools", key="third")
        stop(run.task_id, by=ann)
        assert run.call("work", connector="tools", key="fourth", send=lambda op: "sent").ignored
        assert named(told, "operation_settled") == []


def boom(*_: object, **__: object) -> None:
    raise RuntimeError("boom")


ACTS: dict[str, Callable[[Run], object]] = {
    "stop": lambda run: stop(run.task_id),
    "begin": lambda run: begin(run.task_id),
    "finish": lambda run: run.finish(),
    "pause": lambda run: pause(run.task_id),
}


class TestTheCommit:
    @pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
    def test_nothing_is_sent_for_what_was_rolled_back(
        self, told: Told, monkeypatch: pytest.MonkeyPatch, act: Callable[[Run], object]
    ) -> None:
        run = begin("Report")
        told.clear()
        with monkeypatch.context() as patch:
            patch.setattr(wake, "notify_on_commit", boom)
            with pytest.raises(RuntimeError, match="boom"):
                act(run)
        assert told == []
        assert (task_of(run).state, task_of(run).last_run) == ("active", 1)

    def test_nothing_is_sent_of_a_receipt_that_was_rolled_back(
        self, told: Told, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = begin("Report")
        with run.dispatch("work", connector="tools", key="k") as op:
            with monkeypatch.context() as patch:
                patch.setattr(storing, "store", boom)
                with pytest.raises(RuntimeError, match="boom"):
                    settle.record(op.id, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
            assert named(told, "operation_settled") == []
            op.succeeded()
        assert len(named(told, "operation_settled")) == 1

    def test_what_is_tried_again_is_sent_once(self, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
        run, tries = begin("Report"), iter([True])

        def starts_over(task_ids: object, **kwargs: object) -> None:
            if next(tries, False):
                raise database.StartOver("once")

        monkeypatch.setattr(wake, "notify_on_commit", starts_over)
        assert stop(run.task_id).stopped
        assert [facts["tasks"] for facts in named(told, "tasks_stopped")] == [(run.task_id,)]

    def test_without_the_commit_hook_a_rolled_back_stop_would_be_told(
        self, told: Told, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that the tests above can fail: sent at once, it is sent of what never happened."""
        run = begin("Report")
        monkeypatch.setattr("agentstop.telling.transaction.on_commit", lambda do, **_: do())
        monkeypatch.setattr(wake, "notify_on_commit", boom)
        heard: list[object] = []

        @receiver(signals.tasks_stopped)
        def hear(sender: type, **facts: Any) -> None:
            heard.append(facts["tasks"])

        with pytest.raises(RuntimeError, match="boom"):
            stop(run.task_id)
        signals.tasks_stopped.disconnect(hear)
        assert (heard, task_of(run).state) == ([(run.task_id,)], "active")

    def test_others_see_it_when_it_is_sent(self, in_thread: InThread) -> None:
        run, seen = begin("Report"), list[str]()

        @receiver(signals.tasks_stopped)
        def look_elsewhere(sender: type, **facts: Any) -> None:
            seen.append(in_thread(lambda: str(task_of(run).state)).result(HANG_GUARD))

        stop(run.task_id)
        signals.tasks_stopped.disconnect(look_elsewhere)
        assert seen == ["stopped"]


class TestReceivers:
    def test_one_that_raises_harms_nobody_and_is_logged(
        self, told: Told, caplog: pytest.LogCaptureFixture, ann: User
    ) -> None:
        def fails(sender: type, **facts: Any) -> None:
            raise ValueError("the host's own fault")

        for signal in ALL.values():
            signal.connect(fails)
        with caplog.at_level(logging.ERROR, "agentstop.signals"):
            run = begin("Report", owner=ann)
            run.call("work", connector="tools", key="k", send=lambda op: "done")
            report = stop(run.task_id, by=ann)
        for signal in ALL.values():
            signal.disconnect(fails)
        assert report.stopped and task_of(run).state == "stopped"
        assert names(told) == ["run_begun", "operation_settled", "tasks_stopped"]
        actions = [getattr(each, "action", "") for each in caplog.records if each.name == "agentstop.signals"]
        assert actions == ["receiver_failed"] * 3
        assert "fails of a signal failed: ValueError" in caplog.text

    def test_one_may_call_agentstop(self, ann: User) -> None:
        """For example: what a stop has ended is begun anew as another task."""
        made: list[Run] = []

        @receiver(signals.tasks_stopped)
        def clean_up(sender: type, **facts: Any) -> None:
            made.append(begin("Clean up", owner=ann))
            serve(made[0].task_id, begin("Another", owner=ann))

        stop(begin("Report", owner=ann).task_id)
        signals.tasks_stopped.disconnect(clean_up)
        made[0].check()

    def test_where_nobody_listens_nothing_is_asked_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agentstop.telling.transaction.on_commit", boom)
        run = begin("Report")
        run.call("work", connector="tools", key="k", send=lambda op: "done")
        assert stop(run.task_id).stopped


@pytest.mark.parametrize("state", ["finished", "failed", "stopped"])
def test_a_child_that_begins_again_while_its_parents_are_paused_is_held_with_them(ann: User, state: str) -> None:
    """R33: a pause of a tree has no hole for those that were over when it came."""
    root = begin("root", owner=ann)
    child = begin("child", serves=[root])
    ends: dict[str, Callable[[Run], object]] = {
        "finished": Run.finish,
        "failed": Run.fail,
        "stopped": lambda run: stop(run.task_id, by=ann),
    }
    ends[state](child)
    pause(root.task_id, by=ann)
    begin(child.task_id, by=ann)
    assert task_of(child).state == "paused"
    resume(root.task_id, by=ann)
    assert task_of(child).state == "active"
