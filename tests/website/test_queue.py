"""The demo's queue and agents: at least once, and never against a stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone

from agentstop import lifecycle, reconcile, wake
from agentstop.answers import answer, decline
from agentstop.exceptions import Stopped, Superseded
from agentstop.models import Operation, Question, Task
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from website.demo import agent, queue
from website.demo.agents import Agents, run_for
from website.demo.models import Job, JobState

WISHES: dict[str, Any] = {"topic": "figures", "channel": "#team", "pace": 0.0, "troubled": "report", "troubles": []}


def expire(job: Job) -> None:
    """Its worker was not heard of in time."""
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_a_job_is_taken_once_until_its_lease_is_over(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    assert queue.take("one") == job
    assert queue.take("two") is None
    expire(job)
    assert queue.take("two") == job


def test_a_worker_that_lost_its_job_cannot_keep_it(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    queue.take("one")
    expire(job)
    queue.take("two")
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now())
    queue.renew("one", [job.pk])
    assert Job.objects.get(pk=job.pk).lease_until < timezone.now()  # type: ignore[operator]


def test_a_task_stopped_in_the_queue_is_never_begun(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    stop(job.task_id, by=ann)
    taken = queue.take("one")
    assert taken is not None
    with pytest.raises(Stopped):
        run_for(taken)
    assert Task.objects.get(pk=job.task_id).state == "stopped"


def test_a_press_on_a_page_that_saw_it_waiting_stops_the_first_run_and_no_later_one(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    run = run_for(queue.take("one"))  # type: ignore[arg-type]
    assert stop(job.task_id, by=ann, run=0).stopped
    with pytest.raises(Stopped):
        run.check()
    queue.enqueue_again(Task.objects.get(pk=job.task_id), ann, WISHES)
    assert stop(job.task_id, by=ann, run=0).why == "newer_run"


def test_a_job_whose_worker_died_gets_a_new_run(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    first = run_for(queue.take("one"))  # type: ignore[arg-type]
    expire(job)
    second = run_for(queue.take("two"))  # type: ignore[arg-type]
    assert (first.number, second.number) == (1, 2)
    with pytest.raises(Superseded):
        first.check()


def test_a_job_whose_worker_died_is_not_begun_again_after_a_stop(ann: User) -> None:
    job = queue.enqueue(ann, WISHES)
    run_for(queue.take("one"))  # type: ignore[arg-type]
    stop(job.task_id, by=ann)
    expire(job)
    with pytest.raises(Stopped):
        run_for(queue.take("two"))  # type: ignore[arg-type]
    assert Task.objects.get(pk=job.task_id).last_run == 1


def test_a_new_run_has_all_of_the_wishes_of_the_last_one(ann: User) -> None:
    """Also to be asked before the last step: what is sent unasked cannot be called back."""
    wishes = {**WISHES, "kind": "report", "asks": True, "troubles": ["slow"]}
    job = queue.enqueue(ann, wishes)
    stop(job.task_id, by=ann)
    queue.start(begin(job.task_id, by=ann))
    again = Job.objects.latest("pk")
    assert (again.pk != job.pk, again.run) == (True, 1)
    assert {name: getattr(again, name) for name in wishes} == wishes


def test_a_second_stop_counts_for_a_run_that_was_begun_again_and_still_waits(ann: User) -> None:
    task = lifecycle.create("figures", owner=ann)
    stop(task, by=ann)
    task.refresh_from_db()
    queue.enqueue_again(task, ann, WISHES)
    stop(task, by=ann)
    with pytest.raises(Stopped):
        run_for(queue.take("one"))  # type: ignore[arg-type]
    assert task.runs.get().halted_at is not None, "nobody is at work in it, and the page would wait for their word"


@pytest.mark.parametrize("begun", ["by its agent", "by a person"])
def test_a_run_whose_job_could_not_be_written_down_has_failed(
    ann: User, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    """Otherwise it is live for ever: the page says that an agent is at work, and waits for its word after a stop."""
    job = queue.enqueue(ann, WISHES)
    taken = queue.take("one")
    assert taken is not None
    task = Task.objects.get(pk=job.task_id)

    def full(*args: object, **kwargs: object) -> None:
        raise OperationalError("the disk is full")

    if begun == "by a person":
        stop(task, by=ann)
        task.refresh_from_db()
        monkeypatch.setattr(queue, "_put", full)
        press: Callable[[], object] = lambda: queue.enqueue_again(task, ann, WISHES)  # noqa: E731
    else:
        monkeypatch.setattr(queue, "set_run", full)
        press = lambda: run_for(taken)  # noqa: E731
    with pytest.raises(OperationalError, match="the disk is full"):
        press()
    run = task.runs.get()
    assert (run.state, run.error) == ("failed", "OperationalError: the disk is full")
    assert run.halted_at is not None


def test_the_agent_does_its_steps_and_its_run_is_finished(ann: User, sandbox: SandboxClient) -> None:
    job = queue.enqueue(ann, WISHES)
    run = run_for(queue.take("one"))  # type: ignore[arg-type]
    agent.work(job, run)
    assert Task.objects.get(pk=job.task_id).state == "finished"
    assert job.outcomes == {"report": "accepted", "upload": "accepted", "notify": "accepted"}
    assert sandbox.writes(task=f"task {job.task_id}") == 3


def test_the_agent_waits_for_an_unknown_outcome_instead_of_sending_again(ann: User, sandbox: SandboxClient) -> None:
    job = queue.enqueue(ann, WISHES | {"troubles": ["lose_response"]})
    with Agents(2):
        wait_until_over(job)
    assert Task.objects.get(pk=job.task_id).state == "finished"
    [report] = Operation.objects.filter(task=job.task_id, action="report.create")
    assert sandbox.counts(str(report.idempotency_key))["submits"] == 1


def test_ending_the_worker_ends_its_agents_and_says_so(ann: User, sandbox: SandboxClient) -> None:
    sandbox.hold("accepted", "figures")
    job = queue.enqueue(ann, WISHES)
    with Agents(2):
        sandbox.wait("accepted", "figures")
    job.refresh_from_db()
    task = Task.objects.get(pk=job.task_id)
    assert (job.state, task.state) == (JobState.OVER, "finished")
    assert "worker was ended" in task.runs.get().error
    sandbox.release("accepted", "figures")


def test_a_stop_frees_the_agent_while_the_provider_works(
    ann: User, sandbox: SandboxClient, in_thread: InThread
) -> None:
    sandbox.hold("accepted", "figures")
    job = queue.enqueue(ann, WISHES)
    run = Run(job.task_id, run_for(queue.take("one")).number)  # type: ignore[arg-type]
    working = in_thread(pytest.raises, Stopped, agent.work, job, run)
    sandbox.wait("accepted", "figures")
    stop(job.task_id, by=ann)
    working.result(HANG_GUARD)
    assert job.outcomes == {"report": "ignored"}
    assert sandbox.writes(task=f"task {job.task_id}") == 0
    sandbox.release("accepted", "figures")


def wait_until_over(job: Job) -> None:
    """Follow up what is unknown, as a worker does beside its agents; each turn looks whether the job has ended."""
    woken = threading.Event()
    forget = wake.subscribe(lambda tasks, over: woken.set())
    deadline = time.monotonic() + HANG_GUARD
    while Job.objects.get(pk=job.pk).state != JobState.OVER:
        assert time.monotonic() < deadline, "the job never ended"
        reconcile.work()
        woken.wait(0.2)
        woken.clear()
    forget()


@pytest.mark.parametrize(("press", "told"), [(answer, 1), (decline, 0)])
def test_an_agent_that_asks_tells_the_channel_only_after_a_yes(
    ann: User, sandbox: SandboxClient, in_thread: InThread, press: Callable[..., None], told: int
) -> None:
    job = queue.enqueue(ann, {**WISHES, "asks": True})
    run = run_for(job)
    working = in_thread(agent.work, job, run)
    eventually(Question.objects.count, 1)
    assert Operation.objects.get(action="notify.post").attempts == 0
    press(Question.objects.get(), by=ann)
    working.result(HANG_GUARD)
    assert len([effect for effect in sandbox.ledger()["effects"] if effect["kind"].startswith("notif")]) == told
    assert Task.objects.get(pk=job.task_id).state == "finished"
    assert Job.objects.get(pk=job.pk).outcomes["notify"] == ("accepted" if told else "declined")
