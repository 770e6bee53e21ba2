"""Jobs of `django.tasks`: what a stop does to those that wait, that run, and that others wait for. R10, R11, R31, R33.

The ungated job goes wrong first; the ledger of the sandbox is the referee.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from agentstop.integrations import jobs as gating
from agentstop.integrations.django_tasks import GatedTask, Refusal, refusal_of
from agentstop.integrations.django_tasks.framework import Task, task_backends
from agentstop.integrations.django_tasks.task import STAMP, gated_task
from agentstop.models import Operation
from agentstop.models import Run as RunRow
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Outcome
from agentstop.pause import pause, resume
from agentstop.runs import begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from agentstop.working import aworking, working
from tests.conftest import HANG_GUARD
from tests.integrations.django_tasks import jobs
from tests.integrations.django_tasks.conftest import Workers
from tests.observed import of_key, task_of
from tests.reports.acts import refusals

pytestmark = pytest.mark.django_db(transaction=True)

PAUSE = {"policy": "test"}


def done(sandbox: SandboxClient, label: str) -> int:
    return sandbox.writes(task=label)


def ended(result: Any) -> tuple[str, str]:
    """The job's state, and why it went no further."""
    result.refresh()
    refusal = refusal_of(result)
    return str(result.status), refusal.reason if refusal is not None else ""


REFUSED = ("SUCCESSFUL", "stopped")
DONE = ("SUCCESSFUL", "")


def test_ungated_a_job_that_waits_in_the_queue_sends_after_the_stop(sandbox: SandboxClient, workers: Workers) -> None:
    run = begin("Notify")
    with working(run):
        jobs.ungated.enqueue("wild")
    stop(run.task_id, policy="test")
    workers.do()
    assert done(sandbox, "wild") == 1


def test_a_job_that_waits_is_refused_once_the_task_is_stopped(sandbox: SandboxClient, workers: Workers) -> None:
    """R10. Recorded, no failure, and sent by no later worker; another task's job goes on."""
    run, other = begin("Notify"), begin("Other")
    with working(run):
        waits = jobs.notify.enqueue("main")
    later = jobs.notify.using(run=run, run_after=timezone.now() + timedelta(milliseconds=1)).enqueue("later")
    beside = jobs.notify.using(run=other).enqueue("other")
    stop(run.task_id, policy="test")
    workers.do(4)
    assert [ended(job) for job in (waits, later, beside)] == [REFUSED, REFUSED, DONE]
    refusal = refusal_of(waits)
    assert refusal is not None and "stopped" in refusal.words and refusal.again == ""
    assert [done(sandbox, label) for label in ("main", "later", "other")] == [0, 0, 1]
    assert refusals(run) == {("main", "stopped"): 1, ("later", "stopped"): 1}
    assert of_key(run.task_id, "main").label is Label.NOT_SENT
    assert DBTaskResult.objects.ready().count() == 0
    assert list(differences()) == []


def test_the_job_of_a_superseded_run_is_refused(sandbox: SandboxClient, workers: Workers) -> None:
    """R27."""
    old = begin("Notify")
    new = begin(task_of(old))
    first, second = jobs.notify.using(run=old).enqueue("old"), jobs.notify.using(run=new).enqueue("new")
    workers.do(2)
    assert (ended(first)[1], ended(second)) == ("superseded", DONE)
    assert (done(sandbox, "old"), done(sandbox, "new")) == (0, 1)


def test_a_job_of_django_sends_others_for_its_own_run(sandbox: SandboxClient, workers: Workers) -> None:
    """R31. The child that still waits is refused with the stop."""
    run = begin("Parent")
    jobs.parent.using(run=run).enqueue("now")
    workers.do(2)
    jobs.parent.using(run=run).enqueue("late")
    workers.do()
    stop(run.task_id, policy="test")
    workers.do()
    assert (done(sandbox, "now child"), done(sandbox, "late child")) == (1, 0)
    assert refusals(run) == {("late child", "stopped"): 1}


def test_ungated_a_job_of_django_that_is_delivered_again_has_its_effect_twice(
    sandbox: SandboxClient, workers: Workers
) -> None:
    job = jobs.ungated.enqueue("wild")
    workers.do()
    delivered_again(job)
    workers.do()
    assert done(sandbox, "wild") == 2


def delivered_again(job: Any) -> None:
    """As by whoever gives back the jobs of workers that are dead: the backend itself leaves them running for ever."""
    DBTaskResult.objects.filter(pk=job.id).update(status="READY")


@pytest.mark.parametrize("task", [jobs.notify, jobs.nameless], ids=["by its key", "by its own id"])
def test_the_same_job_of_django_at_two_workers_has_one_effect(
    sandbox: SandboxClient, workers: Workers, task: GatedTask
) -> None:
    """R9, R11. The second comes back for the answer; delivered once more later, it gets the same."""
    run = begin("Notify")
    sandbox.hold("received", "twice")
    job = task.using(run=run).enqueue("twice")
    first = workers.begin()
    sandbox.wait("received", "twice")
    delivered_again(job)
    workers.do()
    refusal = refusal_of(again := task.get_result(job.id))
    assert refusal is not None and refusal.reason == "in_flight"
    sandbox.release("received", "twice")
    first.result(HANG_GUARD)
    comes_back(task, refusal, workers)
    delivered_again(again)
    workers.do()
    assert ended(job) == DONE
    assert (done(sandbox, "twice"), Operation.objects.get(task=run.task_id).attempts) == (1, 1)
    assert list(differences()) == []


def comes_back(task: GatedTask, refusal: Refusal, workers: Workers) -> None:
    """The job that was sent for later, now."""
    DBTaskResult.objects.filter(pk=refusal.again).update(run_after=timezone.now())
    workers.do()
    assert ended(task.get_result(refusal.again)) == DONE


def test_a_job_of_django_for_a_paused_task_comes_back_when_it_is_resumed(
    sandbox: SandboxClient, workers: Workers
) -> None:
    """R33."""
    run = begin("Pause")
    pause(run.task_id, **PAUSE)
    held = jobs.with_context.using(run=run).enqueue("held")
    workers.do()
    held.refresh()
    refusal = refusal_of(held)
    assert refusal is not None and refusal.reason == "paused" and done(sandbox, "held") == 0
    resume(run.task_id, **PAUSE)
    comes_back(jobs.with_context, refusal, workers)
    assert (done(sandbox, "held"), refusals(run), run.context()) == (1, {}, [1])


def test_a_job_of_django_with_several_effects_gates_each(sandbox: SandboxClient, workers: Workers) -> None:
    run = begin("Notify")
    job = jobs.several.using(run=run).enqueue(["one", "two"])
    worker = workers.begin()
    assert jobs.AT["one"].wait(HANG_GUARD)
    stop(run.task_id, policy="test")
    jobs.GO["two"].set()
    jobs.GO["one"].set()
    worker.result(HANG_GUARD)
    job.refresh()
    assert job.return_value == ["accepted", "ignored"]
    assert [done(sandbox, label) for label in ("one", "two")] == [1, 0]
    assert refusals(run) == {("two", "stopped"): 1}


def test_a_running_job_of_django_hears_the_stop(workers: Workers) -> None:
    """R26."""
    run = begin("Listen")
    job = jobs.hears.using(run=run).enqueue("main")
    worker = workers.begin()
    assert jobs.AT["main"].wait(HANG_GUARD)
    stop(run.task_id, policy="test")
    worker.result(HANG_GUARD)
    job.refresh()
    assert job.return_value is True


def test_the_end_of_a_job_of_django_may_be_the_end_of_its_run(workers: Workers) -> None:
    """R2. Also when it hears of the stop: its process says that it goes no further."""
    runs = {how: begin(how) for how in ("ends", "fails", "waits")}
    results = [jobs.agent.using(run=run).enqueue(how) for how, run in runs.items()]
    worker = workers.begin(3)
    assert jobs.AT["agent"].wait(HANG_GUARD)
    stop(runs["waits"].task_id, policy="test")
    jobs.GO["agent"].set()
    worker.result(HANG_GUARD)
    assert [ended(result) for result in results] == [DONE, ("FAILED", ""), REFUSED]
    rows = RunRow.objects.filter(task__in=[run.task_id for run in runs.values()]).order_by("task")
    assert [row.state for row in rows] == ["finished", "failed", "stopped"]
    assert rows[1].error == "ValueError: no idea" and rows[2].halted_at is not None


def test_a_failure_of_its_own_is_a_failure_of_the_job_and_an_unknown_outcome(workers: Workers) -> None:
    """R12."""
    run = begin("Fails")
    job = jobs.fails.using(run=run).enqueue("main")
    workers.do()
    assert ended(job)[0] == "FAILED" and "TimeoutError" in job.errors[0].traceback
    assert of_key(run.task_id, "main").label is Label.UNKNOWN


def test_a_job_of_django_for_no_run_does_nothing_and_an_altered_token_neither(
    sandbox: SandboxClient, workers: Workers
) -> None:
    stamp = {STAMP: {"run": begin("Token").token + "x", "job": "1"}}
    found = [jobs.notify.enqueue("none"), jobs.notify.enqueue("forged", **stamp)]
    workers.do(2)
    assert [ended(job)[0] for job in found] == ["FAILED", "FAILED"]
    assert "sent for no run" in found[0].errors[0].traceback and "altered" in found[1].errors[0].traceback
    assert done(sandbox, "none") + done(sandbox, "forged") == 0


def test_the_immediate_backend_gates_too_and_cannot_wait(sandbox: SandboxClient) -> None:
    """A job that is held there is refused, since nobody would send it again."""
    run = begin("At once")
    assert jobs.at_once.using(run=run).enqueue("first").return_value == "told first"
    pause(run.task_id, **PAUSE)
    held = refusal_of(jobs.at_once.using(run=run).enqueue("held"))
    stop(run.task_id, policy="test")
    refused = refusal_of(jobs.at_once.using(run=run).enqueue("second"))
    assert held is not None and refused is not None
    assert (held.reason, held.again, refused.reason) == ("paused", "", "stopped")
    assert [done(sandbox, label) for label in ("first", "held", "second")] == [1, 0, 0]


def test_coroutines_are_gated_and_enqueued_from_coroutines(sandbox: SandboxClient, workers: Workers) -> None:
    run = begin("Await")

    async def send(label: str) -> Any:
        return await jobs.coroutine.using(run=run).aenqueue(label)

    async def direct(label: str) -> Any:
        async with aworking(run):
            return await jobs.coroutine.acall(label)

    first = async_to_sync(send)("first")
    workers.do()
    assert (ended(first), asyncio.run(direct("direct"))) == (DONE, "told direct")
    second = async_to_sync(send)("second")
    stop(run.task_id, policy="test")
    workers.do()
    assert ended(second) == REFUSED
    assert [done(sandbox, label) for label in ("first", "direct", "second")] == [1, 1, 0]


class Own(Task):  # type: ignore[type-arg]
    """What a backend may have made its tasks."""


def test_a_backend_may_make_all_its_tasks_gated_and_one_with_tasks_of_its_own_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = task_backends["default"]
    monkeypatch.setattr(type(backend), "task_class", GatedTask)
    assert isinstance(jobs.task(jobs.ungated.func), GatedTask)
    monkeypatch.setattr(type(backend), "task_class", Own)
    with pytest.raises(TypeError, match="are Own: derive that class from GatedTask"):
        gated_task()(jobs.write)


def test_with_the_gate_taken_away_the_job_of_a_stopped_task_sends(
    sandbox: SandboxClient, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tests above would show if the job were not one operation."""
    monkeypatch.setattr(gating, "call_here", lambda request, body, **_: Outcome(CallOutcome.ACCEPTED, 0, body(None)))
    monkeypatch.setattr(jobs, "own_key", lambda: "")
    run = begin("Broken")
    jobs.notify.using(run=run).enqueue("main")
    stop(run.task_id, policy="test")
    workers.do()
    assert done(sandbox, "main") == 1
