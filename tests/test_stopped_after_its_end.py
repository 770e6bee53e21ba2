"""A stop of a task that has finished or failed: it stays so, and no code begins it again; a person can."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agentstop import spawning
from agentstop.exceptions import ChildStopped, Stopped
from agentstop.models import Decision, Task
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.timeline import chronicle
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

ENDS: dict[str, Callable[[Run], bool]] = {"finish": Run.finish, "fail": lambda run: run.fail("it broke")}


@pytest.fixture(params=ENDS)
def ended(request: pytest.FixtureRequest, ann: User) -> Run:
    run = begin("a task", owner=ann)
    ENDS[request.param](run)
    return run


def delivered(task: int) -> bool:
    """Whether a job that is delivered again begins a run."""
    try:
        begin(task)
    except Stopped:
        return False
    return True


def test_a_job_that_is_delivered_again_begins_nothing_and_a_person_can(ended: Run, ann: User) -> None:
    """R4. R10. R28: without a press the job begins a new run; after one it is refused, until a person begins one."""
    again = begin(ended.task_id)
    ENDS["fail"](again)
    report = stop(ended.task_id, by=ann, reason="enough")
    assert (report.stopped, report.why) == (False, "finished")
    for _ in range(2):
        with pytest.raises(Stopped, match="after it had ended"):
            begin(ended.task_id)
    task = task_of(ended)
    assert (task.state, task.late_stop_id, task.stopped_at) == ("finished", report.decision, None)
    assert stop(ended.task_id, by=ann).why == "finished" and task_of(ended).late_stop_id == report.decision
    refused = Decision.objects.filter(task=task, verb="start", effect="denied")
    assert [each.detail["why"] for each in refused] == ["stopped"] * 2
    assert list(differences()) == []
    anew = begin(ended.task_id, by=ann)
    anew.check()
    ENDS["fail"](anew)
    assert task_of(ended).late_stop_id is None
    assert begin(ended.task_id).number == anew.number + 1
    assert list(differences()) == []


def test_a_press_for_an_older_run_shuts_nothing(ended: Run, ann: User) -> None:
    """R4."""
    ENDS["fail"](begin(ended.task_id))
    assert stop(ended.task_id, by=ann, run=1).why == "newer_run"
    begin(ended.task_id).check()


def test_press_and_delivery_at_once(
    ended: Run, ann: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4: the delivery waits for the press, which has the task's lock: it begins nothing."""
    there, go = threading.Event(), threading.Event()
    original = Decision.save

    def held(decision: Decision, **options: Any) -> None:
        original(decision, **options)
        if decision.verb == "stop":
            there.set()
            assert go.wait(HANG_GUARD)

    monkeypatch.setattr(Decision, "save", held)
    press = in_thread(stop, ended.task_id, by=ann)
    assert there.wait(HANG_GUARD)
    delivery = in_thread(delivered, ended.task_id)
    go.set()
    assert press.result(HANG_GUARD).why == "finished"
    assert delivery.result(HANG_GUARD) is False
    assert task_of(ended).live_run is None


def test_a_delivery_that_was_first_is_what_the_press_stops(ended: Run, ann: User, in_thread: InThread) -> None:
    """R4: whichever is first, nothing runs after a press that named what it saw; four of each at once."""
    ready = threading.Barrier(8, timeout=HANG_GUARD)

    def press() -> str:
        ready.wait()
        return stop(ended.task_id, by=ann).why

    def deliver() -> bool:
        ready.wait()
        return delivered(ended.task_id)

    presses = [in_thread(press) for _ in range(4)]
    deliveries = [in_thread(deliver) for _ in range(4)]
    assert len([each.result(HANG_GUARD) for each in (*presses, *deliveries)]) == 8
    assert task_of(ended).live_run is None
    with pytest.raises(Stopped):
        begin(ended.task_id)
    assert list(differences()) == []


def test_the_check_under_the_lock_is_what_refuses(ended: Run, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the job that is delivered again works on after the person's press."""
    stop(ended.task_id, by=ann)
    monkeypatch.setattr(spawning, "is_shut", lambda task: task.state == "stopped")
    begin(ended.task_id).check()


def test_children_that_had_ended_are_begun_by_no_job_either(ann: User) -> None:
    """R10. R31: to any depth, not those that are detached, nor those that another task's live run needs."""
    parent, other = begin("parent", owner=ann), begin("other", owner=ann)
    child = begin("child", serves=[parent])
    leaf, free = begin("leaf", serves=[child]), begin("free", serves=[parent], detached=True)
    shared = begin("shared", serves=[parent, other])
    typed = child.task_id
    for one in (leaf, child, free, shared):
        one.fail("it broke")
    report = stop(parent.task_id, by=ann)
    assert (report.stopped, report.descendants) == (True, 0)
    for one in (child, leaf):
        with pytest.raises(Stopped):
            begin(one.task_id)
        with pytest.raises(Stopped):
            begin(one.task_id, serves=[other])
    for one in (free, shared):
        begin(one.task_id).check()
    cause = Task.objects.get(pk=typed).late_stop
    assert cause is not None and (cause.cause_id, cause.by) == (report.decision, ann)
    anew = begin(parent.task_id, by=ann)
    begin(child.task_id, serves=[anew]).check()
    assert list(differences()) == []


def test_a_child_that_failed_and_was_pressed_is_not_spawned_again(ann: User) -> None:
    """R31: a finished one is still answered as it is, since nothing begins by that."""
    parent = begin("parent", owner=ann)
    failed, done = begin("failed", serves=[parent], key="failed"), begin("done", serves=[parent], key="done")
    failed.fail("it broke")
    done.finish()
    for one in (failed, done):
        stop(one.task_id, by=ann)
    with pytest.raises(ChildStopped):
        begin("failed", serves=[parent], key="failed")
    assert begin("done", serves=[parent], key="done") == done


def test_it_is_told_everywhere(ended: Run, ann: User, client: Client) -> None:
    """R6. R37: on the page, in the list, on the timeline and over HTTP; and the answer says it."""
    client.force_login(ann)
    failed = task_of(ended).runs.get().state == "failed"
    page = reverse("agentstop:task", args=[ended.task_id])
    offered = f'type="submit" form="agentstop-task-{ended.task_id}-stop"' in client.get(page).content.decode()
    assert offered is failed  # a failed job may come back
    press = reverse("agentstop:stop", args=[ended.task_id])
    answer = client.post(press, {"run": 1, "reason": "enough"}, follow=True).content.decode()
    assert "Only a person begins it again." in answer
    shown = client.get(page).content.decode()
    assert "Stop was pressed by <bdi>ann</bdi> at" in shown and "<q><bdi>enough</bdi></q>" in shown
    assert f'type="submit" form="agentstop-task-{ended.task_id}-stop"' not in shown
    line = "Stop was pressed after that: only a person begins it again"
    assert line in shown and line in client.get(reverse("agentstop:tasks")).content.decode()
    facts = chronicle.load(ended.task_id, ann)[1].task.facts
    assert [fact.text for fact in facts][-1].startswith("Stop was pressed by ann; it had ended before.")
    assert (
        "Stop pressed after its end" in client.get(reverse("agentstop:timeline", args=[ended.task_id])).content.decode()
    )
    row = client.get(f"/api/tasks/{ended.task_id}/state").json()
    assert (row["state"], row["stopped"], row["late_stop"]["by"]) == ("finished", None, "ann")
