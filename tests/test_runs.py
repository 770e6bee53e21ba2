"""Runs over their lives: redelivered jobs, late presses, restarts by a person; whose result and whose child it is."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agentstop import sending as sends
from agentstop.exceptions import Stopped, Superseded
from agentstop.models import Decision, Operation
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import call_outcomes, task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def starts(task_id: int) -> list[tuple[str, dict[str, str]]]:
    return list(Decision.objects.filter(task=task_id, verb="start").order_by("pk").values_list("effect", "detail"))


def test_a_job_that_is_delivered_again_after_the_stop_begins_nothing(ann: User) -> None:
    """R4, R10: whichever way it names its work: by the task, as a child, or by the token of its run."""
    parent = begin("Report", owner=ann)
    child = begin("part", serves=[parent])
    token = child.token
    stop(parent.task_id, by=ann)
    for deliver in (
        lambda: begin(parent.task_id),
        lambda: begin(task_of(parent)),
        lambda: begin(child.task_id),
        lambda: begin(child.task_id, serves=[parent]),
        lambda: Run.from_token(token).check(),
    ):
        with pytest.raises(Stopped):
            deliver()
    assert [task_of(run).last_run for run in (parent, child)] == [1, 1]
    assert [task_of(run).state for run in (parent, child)] == ["stopped", "stopped"]
    refused = ("denied", {"why": "stopped"})
    assert starts(parent.task_id) == [("applied", {}), refused, refused]
    assert starts(child.task_id) == [("applied", {}), refused, refused]
    assert Run.from_token(token).call("work", connector="tools", key="k", send=lambda op: "sent").ignored
    assert Operation.objects.get().attempts == 0


def test_a_job_that_is_delivered_to_eight_workers_while_it_is_stopped_ends_stopped(
    in_thread: InThread, ann: User
) -> None:
    """Each delivery begins before the stop, and is over, or after it, and is refused: none is left at work."""
    for _ in range(5):
        run, go = begin("Report", owner=ann), threading.Barrier(9, timeout=HANG_GUARD)

        def delivered(run: Run = run, go: threading.Barrier = go) -> Run | None:
            go.wait()
            try:
                return begin(run.task_id)
            except Stopped:
                return None

        workers = [in_thread(delivered) for _ in range(8)]
        go.wait()
        stop(run.task_id, by=ann)
        begun = [each.result(HANG_GUARD) for each in workers]
        assert task_of(run).state == "stopped"
        assert not RunRow.objects.filter(task=run.task_id, state="live").exists()
        refused = [effect for effect, _ in starts(run.task_id) if effect == "denied"]
        assert len(refused) == begun.count(None)
    assert list(differences()) == []


def test_a_first_press_that_comes_after_a_new_run_has_begun_is_answered_and_stops_nothing(
    ann: User, in_thread: InThread
) -> None:
    """R4: the page was drawn in run 1, the press arrives in run 2, whose children and operations go on."""
    old = begin("Report", owner=ann)
    new = begin(old.task_id, by=ann)
    child = begin("part", serves=[new])
    client = Client()
    client.force_login(ann)
    answer = client.post(f"/tasks/{old.task_id}/stop/", {"run": old.number}, headers={"Agentstop-Request": "panel"})
    assert "A newer run has begun since this page was drawn: nothing was stopped." in answer.content.decode()
    for run in (new, child):
        run.check()
    noted = Decision.objects.get(task=old.task_id, verb="stop")
    assert (noted.effect, noted.run, noted.by, noted.detail) == ("noted", old.number, ann, {"why": "newer_run"})
    assert stop(old.task_id, by=ann, run=new.number).descendants == 1
    assert list(differences()) == []


def test_a_press_and_the_run_that_it_does_not_know_at_the_same_instant(ann: User, in_thread: InThread) -> None:
    """Whichever is first, the answer is what happened: the old run was stopped, or a newer one goes on."""
    for _ in range(10):
        old, go = begin("Report", owner=ann), threading.Barrier(2, timeout=HANG_GUARD)

        def begins(old: Run = old, go: threading.Barrier = go) -> Run:
            go.wait()
            return begin(old.task_id, by=ann)

        beginning = in_thread(begins)
        go.wait()
        report = stop(old.task_id, by=ann, run=old.number)
        new = beginning.result(HANG_GUARD)
        assert report.why == ("" if report.stopped else "newer_run")
        assert (task_of(new).state, task_of(new).live_run) == ("active", new.number)
        states = dict(RunRow.objects.filter(task=old.task_id).values_list("number", "state"))
        assert states == {1: "stopped" if report.stopped else "superseded", 2: "live"}
    assert list(differences()) == []


def test_a_person_begins_a_stopped_task_again_and_the_old_run_stays_over(ann: User) -> None:
    """R25, R27: the new run has a number of its own; what the old one's process still does is refused and heard."""
    old = begin("Report", owner=ann)
    stop(old.task_id, by=ann, reason="wrong quarter")
    new = begin(old.task_id, by=ann)
    with pytest.raises(Superseded):
        old.check()
    assert not old.finish()
    assert old.call("work", connector="tools", key="old", send=lambda op: "sent").ignored
    assert new.call("work", connector="tools", key="new", send=lambda op: "sent").accepted
    task = task_of(new)
    assert (task.state, task.live_run, task.stopped_at, task.stop_reason) == ("active", 2, None, "")
    assert dict(task.runs.values_list("number", "state")) == {1: "stopped", 2: "live"}
    assert (old.context(), new.context()) == ([], ["sent"])
    stops = Decision.objects.filter(task=task, verb="stop", effect="applied")
    assert [decision.reason for decision in stops] == ["wrong quarter"]
    assert list(differences()) == []


def test_whoever_is_in_the_middle_of_the_old_run_is_freed_when_a_person_begins_a_new_one(
    ann: User, in_thread: InThread
) -> None:
    """R26: freed at once, while its send goes on to a receipt that is nobody's input."""
    old, sending, go_on = begin("Report", owner=ann), threading.Event(), threading.Event()

    def slow(op: object) -> str:
        sending.set()
        assert go_on.wait(HANG_GUARD)
        return "late"

    called = in_thread(lambda: old.call("work", connector="tools", key="k", send=slow))
    assert sending.wait(HANG_GUARD)
    new = begin(old.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    go_on.set()
    operation = Operation.objects.get()
    sends.close()
    operation.refresh_from_db()
    assert (operation.state, call_outcomes(operation.pk)) == ("succeeded", [(old.number, "ignored")])
    assert (old.context(), new.context()) == ([], [])
