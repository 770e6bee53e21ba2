"""Work goes on after stop: nothing new leaves, what had left is listed everywhere alike, the next run is undisturbed.

Shown elsewhere:

| case | where |
|---|---|
| another task on the same connector goes on untouched | `races/scene.py` in every race, `test_whom_it_hits.py` |
| a long tool: the caller is freed at the stop, the late result is a receipt | `gate/test_under_way.py`, rows 6 and 7 |
| a model's stream is closed, or listed as still active | `test_streams.py` |
| the panel is closed, or opened elsewhere: every window says the same | `browser/test_pages.py`, `live/test_lists.py` |
| the process of the page dies, and the task is stopped from elsewhere | `test_status.py` |
| a paused task's callers are freed by the stop | `test_pause.py` |
| no client and no server submits again what was approved before the stop | `test_approvals.py` |
"""

from __future__ import annotations

import html
import threading

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.answers import answer
from agentstop.exceptions import NotOpen, Stopped, Superseded
from agentstop.models import Attempt, Operation, Question
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import sandbox_connector
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import call_outcomes, task_of
from tests.reports.acts import (
    NOTIFY,
    REPORT,
    UPLOAD,
    ask,
    asked,
    assert_agrees,
    counts,
    long_after,
    operation,
    page,
    refusals,
    seen,
    words,
)
from tests.reports.conftest import StartWorker
from tests.reports.proxies import swallowing

pytestmark = pytest.mark.django_db(transaction=True)

QUEUED = 30


def test_of_thirty_queued_calls_none_leaves_after_the_stop_at_the_fifth(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The agent works off its list without ever asking whether it may go on."""
    run = begin("Notify", owner=ann)
    sandbox.hold("received", "call 5")
    told = in_thread(lambda: [asked(run, f"call {number}") for number in range(1, QUEUED + 1)])
    sandbox.wait("received", "call 5")
    report = stop(run.task_id, by=ann)
    assert told.result(HANG_GUARD) == ["accepted"] * 4 + ["ignored"] + ["stopped"] * (QUEUED - 5)
    assert report.open == (operation(run, "call 5").pk,)
    assert len(sandbox.ledger()["effects"]) == 4
    assert "still active (being sent)" in page(ann, run)
    sandbox.release("received", "call 5")
    sending.close()
    assert len(sandbox.ledger()["effects"]) == 5
    assert refusals(run) == {(f"call {number}", "stopped"): 1 for number in range(6, QUEUED + 1)}
    assert Attempt.objects.filter(operation__task=run.task_id).count() == 5
    assert_agrees(sandbox, run)


def test_calls_that_wait_side_by_side_for_the_gate_are_all_accounted_for(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The same list worked off by eight threads at once: whatever has left by the stop is listed as open or done."""
    run, first = begin("Notify", owner=ann), threading.Event()

    def lane(number: int) -> list[str]:
        told = []
        for turn in range(5):
            told.append(asked(run, f"call {number}.{turn}"))
            if turn == 2:
                first.set()
        return told

    lanes = [in_thread(lane, number) for number in range(8)]
    assert first.wait(HANG_GUARD)
    report = stop(run.task_id, by=ann)
    left = Attempt.objects.filter(operation__task=run.task_id).count()
    told = [word for one in lanes for word in one.result(HANG_GUARD)]
    sending.close()
    assert set(told) <= {"accepted", "ignored", "stopped"}
    assert Attempt.objects.filter(operation__task=run.task_id).count() == left
    assert len(sandbox.ledger()["effects"]) <= left  # one that had passed the gate may have given up before its write
    assert told.count("stopped") == 40 - left
    assert set(report.open) <= set(Operation.objects.filter(attempts=1).values_list("pk", flat=True))
    assert_agrees(sandbox, run)


def test_what_a_proxy_does_not_pass_on_is_cancelled_by_a_request_of_its_own(
    sandbox: SandboxClient, in_thread: InThread, settings: Settings, ann: User
) -> None:
    """R14: the client has closed, the proxy has swallowed that, and the job goes on until it is told by name."""
    with swallowing(sandbox.address) as proxy:
        settings.AGENTSTOP_CONNECTORS = {"sandbox": sandbox_connector(proxy.address)}
        run = begin("Report", owner=ann)
        sandbox.hold("accepted", "job")
        sandbox.hold("working", "job")
        options = {"connector": "sandbox", "key": "job", "on_stop": "cancel"}
        called = in_thread(run.call, REPORT, words("job"), **options)
        sandbox.wait("accepted", "job")
        stop(run.task_id, by=ann)
        assert called.result(HANG_GUARD).ignored
        assert proxy.left.wait(HANG_GUARD)
        eventually(lambda: seen(run, "job").label, Label.UNKNOWN)
        sandbox.release("accepted", "job")
        sandbox.wait("working", "job")
        assert sandbox.ledger(task="job")["effects"][0]["state"] == "running"
        long_after(run)
        while work():
            pass
    assert (seen(run, "job").label, counts(sandbox, run, "job")["cancels"]) == (Label.CANCELLED, 1)
    assert_agrees(sandbox, run)


def test_every_view_of_a_stopped_task_says_the_same(
    sandbox: SandboxClient, in_thread: InThread, ann: User, olga: User
) -> None:
    """The owner's page, its panel alone, the operator's page, and the admin's, while an operation is under way."""
    run = begin("Upload", owner=ann)
    olga.user_permissions.add(Permission.objects.get(codename="view_operation"))
    sandbox.hold("received", "file")
    in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("received", "file")
    run.prepare(UPLOAD, {"text": "next"}, connector="sandbox", key="next")
    stop(run.task_id, by=olga, reason="wrong quarter")
    told = seen(run, "file")
    for user, address in [
        (ann, f"/tasks/{run.task_id}/"),
        (ann, f"/tasks/{run.task_id}/panel/"),
        (olga, f"/tasks/{run.task_id}/"),
        (olga, f"/admin/agentstop/operation/{told.operation.pk}/change/"),
    ]:
        client = Client()
        client.force_login(user)
        shown = html.unescape(client.get(address).content.decode())
        assert told.reading.name in shown, address
    sandbox.release("received", "file")


def test_a_new_run_right_after_the_stop_is_not_disturbed_by_the_old_one(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The old call is still at the provider: its answer, and the end of its agent, come while the new run works."""
    run, entered = begin("Notify", owner=ann), threading.Event()
    sandbox.hold("received", "old")

    def old_agent() -> None:
        with run:
            entered.set()
            ask(run, "old")
            run.check()

    ended = in_thread(pytest.raises, (Stopped, Superseded), old_agent)  # by what it comes to hear first
    sandbox.wait("received", "old")
    stop(run.task_id, by=ann)
    newer = begin(run.task_id, by=ann)
    with newer:
        assert ask(newer, "new").accepted
        sandbox.release("received", "old")
        ended.result(HANG_GUARD)
        newer.check()
        assert ask(newer, "newest").accepted
    assert [entry["text"] for entry in newer.context()] == ["new", "newest"]
    assert run.context() == []
    assert task_of(newer).state == "finished"
    states = dict(task_of(newer).runs.values_list("number", "state"))
    assert states == {run.number: "stopped", newer.number: "finished"}
    assert call_outcomes(operation(run, "old").pk) == [(run.number, "ignored")]
    assert_agrees(sandbox, run)


def test_the_new_run_that_asks_for_what_the_old_one_has_under_way_does_not_send_it_again(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The same business key: refused while it is under way, and afterwards answered from the record."""
    run = begin("Upload", owner=ann)
    sandbox.hold("received", "file")
    in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("received", "file")
    stop(run.task_id, by=ann)
    newer = begin(run.task_id, by=ann)
    assert asked(newer, "file", UPLOAD) == "in_flight"
    sandbox.release("received", "file")
    sending.close()
    assert ask(newer, "file", UPLOAD).accepted
    assert counts(sandbox, run, "file") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}


def test_a_worker_that_was_cut_off_from_the_stop_is_refused_by_the_gate(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User
) -> None:
    """It was frozen when the stop was pressed and heard nothing; awake again it asks for the next effect."""
    run, worker = begin("Notify", owner=ann), start_worker()
    worker.start("first", run, "notify.post", {"text": "first", "label": "first"})
    worker.got("first")
    worker.freeze()
    stop(run.task_id, by=ann)
    long_after(run)
    worker.thaw()
    worker.start("second", Run(run.task_id, run.number), "notify.post", {"text": "second", "label": "second"})
    got = worker.got("second")
    assert (got.outcome, got.refusal) == ("ignored", "stopped")
    assert seen(run, "second").label is Label.NOT_SENT
    assert [effect["text"] for effect in sandbox.ledger()["effects"]] == ["first"]


def test_a_stop_while_the_run_waits_for_a_person_closes_the_prompt_and_refuses_a_later_answer(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """R5: every window shows it closed, the agent is told at once, and whoever answers afterwards is told why not."""
    run, client = begin("Notify", owner=ann), Client()
    client.force_login(ann)
    told = in_thread(run.call, NOTIFY, words("it"), connector="sandbox", key="it", approve="Tell the team?")
    eventually(Question.objects.count, 1)
    asked = Question.objects.get()
    assert f'name="approve" value="{asked.pk}"' in page(ann, run)
    stop(run.task_id, by=ann)
    outcome = told.result(HANG_GUARD)
    assert outcome.ignored and isinstance(outcome.refusal, Stopped)
    shown = html.unescape(page(ann, run))
    assert "Closed: the task was stopped before the agent had taken an answer." in shown
    assert f'type="submit" form="agentstop-task-{run.task_id}-answer"' not in shown
    with pytest.raises(NotOpen, match="was stopped"):
        answer(asked, by=ann)
    late = client.post(f"/tasks/{run.task_id}/answer/", {"approve": asked.pk}, headers={"Agentstop-Request": "panel"})
    assert "The task was stopped before that: your answer was not taken." in late.content.decode()
    assert list(asked.decisions.values_list("verb", "effect")) == [("answer", "noted")] * 2
    assert sandbox.ledger() == {"effects": [], "counts": {}}
    assert_agrees(sandbox, run)
