"""Jobs on real workers: what a stop does to those that wait, that run, and that others wait for. R10, R11, R31, R33.

The ungated job goes wrong first; the ledger of the sandbox is the referee.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import chain, chord, group
from celery.result import AsyncResult
from django.utils import timezone

from agentstop.integrations.celery import HEADER, REFUSED
from agentstop.models import Operation
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from agentstop.working import working
from tests.counted import eventually
from tests.integrations.celery.app import (
    agent,
    app,
    ask,
    between,
    controlled,
    falsely_unsent,
    hears,
    notify,
    parent,
    retrying,
    sent_and_retried,
    several,
    spawns,
    step,
    ungated,
    ungated_retry,
    words,
)
from tests.integrations.celery.conftest import StartWorker, go, state_of, told, until
from tests.observed import of_key, task_of
from tests.reports.acts import refusals

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]

STOPPED = (REFUSED, "stopped")
PAUSE = {"policy": "test"}
THREADS = 4  # of the worker


def done(sandbox: SandboxClient, label: str) -> int:
    return sandbox.writes(task=label)


def at_end(run: Run) -> None:
    assert list(differences()) == []


@contextmanager
def busy(sandbox: SandboxClient) -> Iterator[list[AsyncResult]]:
    """All threads of the worker are taken by another task's jobs: whatever else is due has to wait for the end."""
    run = begin("Busy")
    sandbox.hold("received")
    jobs = [ask.apply_async((f"b{n}", "notify.post", words(f"b{n}"), f"b{n}"), run=run) for n in range(THREADS)]
    yield jobs
    sandbox.release("received")
    assert [state_of(job)[0] for job in jobs] == ["SUCCESS"] * THREADS


def in_retry_wait(sandbox: SandboxClient, job: AsyncResult, label: str) -> None:
    """Its first try is over; the next one, whose time may have come, has no thread."""
    go(label)
    sandbox.wait("received", count=THREADS)
    eventually(lambda: job.state, "RETRY")


def test_ungated_a_retry_that_waits_sends_after_the_stop(sandbox: SandboxClient) -> None:
    run = begin("Notify")
    job = ungated_retry.apply_async(("wild",))
    until("tried:wild")
    with busy(sandbox):
        in_retry_wait(sandbox, job, "wild")
        stop(run.task_id, policy="test")
    job.get(timeout=60)
    assert done(sandbox, "wild") == 1


def test_a_retry_that_waits_is_refused_once_the_task_is_stopped(sandbox: SandboxClient) -> None:
    """R10. The retry is Celery's own; the refusal is recorded, is no failure, and is not retried."""
    run, other = begin("Notify"), begin("Other")
    job = retrying.apply_async(("main",), run=run)
    beside = notify.apply_async(("other",), run=other)
    until("tried:main")
    assert state_of(beside) == ("SUCCESS", "")
    with busy(sandbox):
        in_retry_wait(sandbox, job, "main")
        stop(run.task_id, policy="test")
    assert state_of(job) == STOPPED
    assert (done(sandbox, "main"), done(sandbox, "other")) == (0, 1)
    assert refusals(run) == {("main", "stopped"): 1}
    assert of_key(run.task_id, "main").label is Label.NOT_SENT
    at_end(run)


def test_without_a_stop_the_retry_is_the_second_attempt_of_the_same_operation(sandbox: SandboxClient) -> None:
    """R9. The token and the key survive Celery's retry."""
    run = begin("Notify")
    job = retrying.apply_async(("main",), run=run)
    go("main")
    assert job.get(timeout=60) == "told main"
    operation = Operation.objects.get(task=run.task_id)
    assert (operation.attempts, operation.state, done(sandbox, "main")) == (2, "succeeded", 1)
    assert run.context() == ["told main"]


def test_jobs_that_wait_for_their_time_or_for_a_worker_are_refused(sandbox: SandboxClient, store: redis.Redis) -> None:
    """R10. Prefetched behind those that are busy, with a countdown, or an eta: the worker has them, and none sends."""
    run = begin("Notify")
    with busy(sandbox):
        sandbox.wait("received", count=THREADS)
        jobs = [notify.apply_async((f"main {n}",), run=run) for n in range(3)]
        jobs.append(notify.apply_async(("countdown",), run=run, countdown=1))
        jobs.append(notify.apply_async(("eta",), run=run, eta=timezone.now() + timedelta(seconds=1)))
        eventually(lambda: store.hlen("unacked"), THREADS + len(jobs))  # none is in the queue any more
        stop(run.task_id, policy="test")
    assert [state_of(job) for job in jobs] == [STOPPED] * len(jobs)
    labels = ["main 0", "main 1", "main 2", "countdown", "eta"]
    assert sum(done(sandbox, label) for label in labels) == 0
    assert refusals(run) == {(label, "stopped"): 1 for label in labels}


def test_a_run_may_be_superseded_and_its_jobs_with_it(sandbox: SandboxClient) -> None:
    """R27."""
    old = begin("Notify")
    new = begin(task_of(old))
    assert state_of(notify.apply_async(("old",), run=old)) == (REFUSED, "superseded")
    assert state_of(notify.apply_async(("new",), run=new)) == ("SUCCESS", "")
    assert (done(sandbox, "old"), done(sandbox, "new")) == (0, 1)


def test_the_same_job_at_two_workers_has_one_effect_and_the_other_comes_back_for_the_answer(
    sandbox: SandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11. Delivered four times at once: one sends, three are refused on record, and get the answer from there."""
    run = begin("Notify")
    sandbox.hold("received", "twice")
    first = notify.apply_async(("twice",), run=run)
    sandbox.wait("received", "twice")
    again = [notify.apply_async(("twice",), run=run, task_id=f"{first.id}-{n}") for n in range(3)]
    eventually(lambda: refusals(run).get(("twice", "in_flight")), 3)
    eventually(lambda: {job.state for job in again}, {"RETRY"})
    sandbox.release("received", "twice")
    assert [job.get(timeout=60) for job in (first, *again)] == ["told twice"] * 4
    assert (done(sandbox, "twice"), sandbox.ledger()["effects"][0]["state"]) == (1, "succeeded")
    at_end(run)


def test_a_job_with_several_effects_gates_each(sandbox: SandboxClient) -> None:
    run = begin("Notify")
    job = several.apply_async((["one", "two", "three"],), run=run)
    until("done:one")
    go("one")
    until("done:two")
    stop(run.task_id, policy="test")
    go("two")
    until("done:three")
    go("three")
    assert job.get(timeout=60) == ["accepted", "accepted", "ignored"]
    assert [done(sandbox, label) for label in ("one", "two", "three")] == [1, 1, 0]
    assert refusals(run) == {("three", "stopped"): 1}


def test_a_running_job_hears_the_stop(store: redis.Redis) -> None:
    """R26, R30. Another task's job on the same worker hears nothing, and goes on."""
    run, other = begin("Listen"), begin("Other")
    job, beside = hears.apply_async(("main",), run=run), hears.apply_async(("other",), run=other)
    until("begun:main")
    until("begun:other")
    stop(run.task_id, policy="test")
    assert job.get(timeout=60) is True
    assert store.llen("heard:other") == 0
    stop(other.task_id, policy="test")
    assert beside.get(timeout=60) is True


def test_children_inherit_the_run_by_whatever_way_they_are_sent(sandbox: SandboxClient) -> None:
    """R31. With `apply_async`, and by name; the stop finds both while they wait for their time."""
    run = begin("Parent")
    assert parent.apply_async(("now",), run=run).get(timeout=60) == "now"
    eventually(lambda: done(sandbox, "now child") + done(sandbox, "now by name"), 2)
    assert parent.apply_async(("late",), kwargs={"countdown": 1}, run=run).get(timeout=60) == "late"
    stop(run.task_id, policy="test")
    eventually(lambda: len(refusals(run)), 2)
    assert refusals(run) == {("late child", "stopped"): 1, ("late by name", "stopped"): 1}
    assert done(sandbox, "late child") + done(sandbox, "late by name") == 0


def test_a_child_run_is_stopped_with_the_run_that_it_serves(sandbox: SandboxClient) -> None:
    """R31. Its jobs are refused by their own token."""
    run = begin("Parent")
    child = Run.from_token(spawns.apply_async(("Child",), run=run).get(timeout=60))
    assert state_of(notify.apply_async(("before",), run=child)) == ("SUCCESS", "")
    stop(run.task_id, policy="test")
    assert state_of(notify.apply_async(("after",), run=child)) == STOPPED
    assert (done(sandbox, "before"), done(sandbox, "after")) == (1, 0)


def canvas(kind: str) -> Any:
    """Three steps with a joint before and after the middle, where the test is."""
    first, middle, last = step.s(None, "first"), step.s("middle", wait=True), step.s("last")
    if kind == "chain":
        return chain(first, middle, last)
    if kind == "between others":
        return chain(between.s(None), step.s("first"), between.s(), middle, between.s(), last)
    if kind == "group":
        return chain(first, group(middle, step.s("beside")), last)
    return chord([first, step.s(None, "middle", wait=True)], last)


@pytest.mark.parametrize("kind", ["chain", "between others", "group", "chord"])
def test_a_canvas_stopped_at_a_joint_sends_nothing_behind_it(sandbox: SandboxClient, kind: str) -> None:
    """The next step is sent by a worker when the one before it ends: it carries the same run, and is refused."""
    run = begin("Canvas")
    with working(run):
        result = canvas(kind).apply_async()
    until("at:middle")
    stop(run.task_id, policy="test")
    go("middle")
    assert state_of(result) == STOPPED
    assert [done(sandbox, label) for label in ("first", "middle", "last")] == [1, 1, 0]
    at_end(run)


@pytest.mark.parametrize("kind", ["chain", "between others", "group", "chord"])
def test_a_canvas_that_nobody_stops_goes_through(sandbox: SandboxClient, kind: str) -> None:
    run = begin("Canvas")
    with working(run):
        result = canvas(kind).apply_async()
    go("middle")
    assert result.get(timeout=60) == "last"
    assert [done(sandbox, label) for label in ("first", "middle", "last")] == [1, 1, 1]
    assert len(run.context()) == Operation.objects.filter(task=run.task_id).count()


@pytest.mark.parametrize("how", ["retry", "ignore", "reject"])
def test_celerys_control_flow_is_neither_a_failure_nor_an_unknown_outcome(sandbox: SandboxClient, how: str) -> None:
    """Where the task declares that it then has sent nothing."""
    run = begin("Control")
    job = controlled.apply_async(("flow", how), run=run)
    if how == "retry":
        assert job.get(timeout=60) == "done"
        assert of_key(run.task_id, "flow").label is Label.COMPLETED
        return
    eventually(lambda: Operation.objects.filter(task=run.task_id, state="not_sent").count(), 1)
    assert done(sandbox, "flow") == 0


@pytest.mark.parametrize("task", [sent_and_retried, falsely_unsent], ids=["proves nothing", "declared falsely"])
def test_a_retry_without_an_error_proves_nothing_unless_its_task_declares_it(sandbox: SandboxClient, task: Any) -> None:
    """R11, R12. What was sent before is looked up after the stop; a task that declares falsely is believed."""
    run = begin("Retry")
    task.apply_async(("sent",), run=run)
    until("tried:sent")
    stop(run.task_id, policy="test")
    go("sent")
    ends = Label.NOT_SENT if task is falsely_unsent else Label.COMPLETED_BEFORE
    eventually(lambda: (work(), of_key(run.task_id, "sent").label)[1], ends)
    assert done(sandbox, "sent") == 1


def test_a_retry_because_of_an_error_proves_nothing_and_is_not_sent_blindly() -> None:
    """R11, R12. `self.retry(exc=error)` does not say that nothing was sent: until that is known, nothing is."""
    run = begin("Control")
    job = controlled.apply_async(("flow", "error"), run=run)
    eventually(lambda: ("flow", "in_flight") in refusals(run), True)
    assert Operation.objects.get(task=run.task_id).attempts == 1
    stop(run.task_id, policy="test")
    assert state_of(job) == STOPPED


def test_a_job_of_a_paused_task_comes_back_when_it_is_resumed(sandbox: SandboxClient, store: redis.Redis) -> None:
    """R33. That is none of its retries, and nothing of it is refused on record."""
    run = begin("Pause")
    pause(run.task_id, **PAUSE)
    job = notify.apply_async(("held",), run=run)
    eventually(lambda: job.state, "RETRY")
    assert done(sandbox, "held") == 0
    resume(run.task_id, **PAUSE)
    assert job.get(timeout=60) == "told held"
    assert (done(sandbox, "held"), refusals(run)) == (1, {})


def test_the_end_of_a_job_may_be_the_end_of_its_run(sandbox: SandboxClient) -> None:
    good, bad = begin("Good"), begin("Bad")
    agent.apply_async((False,), run=good).get(timeout=60)
    with pytest.raises(ValueError, match="no idea"):
        agent.apply_async((True,), run=bad).get(timeout=60)
    ended = RunRow.objects.filter(task__in=[good.task_id, bad.task_id]).order_by("task")
    assert list(ended.values_list("state", "error")) == [("finished", ""), ("failed", "ValueError: no idea")]


def test_a_job_for_no_run_does_nothing_and_an_altered_token_neither(sandbox: SandboxClient) -> None:
    run = begin("Token")
    with pytest.raises(Exception, match="was sent for no run"):
        notify.apply_async(("none",)).get(timeout=60)
    with pytest.raises(Exception, match="altered or is malformed"):
        notify.apply_async(("forged",), headers={HEADER: run.token + "x"}).get(timeout=60)
    assert done(sandbox, "none") + done(sandbox, "forged") == 0


def test_what_was_revoked_while_no_worker_was_there_runs_and_the_gate_refuses_it_all_the_same(
    sandbox: SandboxClient, start_worker: StartWorker
) -> None:
    """R1. `revoke` is a message to those who are there; the stop is a fact for whoever comes.

    The job without a gate is shown as revoked by those who were there, and has its effect.
    """
    run = begin("Revoke")
    wild, gated = (job.apply_async(("r",), queue="later", **o) for job, o in ((ungated, {}), (notify, {"run": run})))
    stop(run.task_id, policy="test")
    app.control.revoke([wild.id, gated.id])
    start_worker(queue="later")
    eventually(lambda: refusals(run), {("r", "stopped"): 1})
    eventually(lambda: done(sandbox, "r"), 1)


def test_a_job_that_is_held_tells_what_it_got() -> None:
    run = begin("Ask")
    ask.apply_async(("one", "notify.post", words("one"), "one"), run=run)
    assert told("one") == {"outcome": "accepted", "refusal": ""}
