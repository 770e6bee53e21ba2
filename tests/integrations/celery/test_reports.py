"""What has gone wrong elsewhere with queues, played through Celery: late ends, follow-ups, hooks, old tasks. R10, R15.

Retries, redelivery, canvases and killed workers are in `test_jobs.py` and `test_killed.py`.
"""

from __future__ import annotations

import json

import pytest
import redis
from django.contrib.auth.models import User

from agentstop import gate
from agentstop.dispatched import Dispatched
from agentstop.folds.input_states import InputState
from agentstop.inputs import add
from agentstop.integrations.celery import HEADER, REFUSED
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.inputs.reading import states
from tests.integrations.celery.app import finishes_late, follow_up, notify, step
from tests.integrations.celery.conftest import go, state_of, until
from tests.observed import of_key
from tests.reports.acts import refusals
from tests.reports.test_retries import finished_tasks

MANY = 100  # a thousand take ten times as long and show the same

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


def halted(run: Run) -> bool:
    return RunRow.objects.get(task=run.task_id, number=run.number).halted_at is not None


def test_a_job_that_ends_after_the_stop_is_kept_and_raises_nothing(sandbox: SandboxClient) -> None:
    """R15. Its effect is a late success; and an agent that says that it has finished changes nothing."""
    run, late = begin("Late"), begin("Finish")
    sandbox.hold("effect", "late")
    job, agent = notify.apply_async(("late",), run=run), finishes_late.apply_async(run=late)
    sandbox.wait("effect", "late")
    until("at:finish")
    for each in (run, late):
        stop(each.task_id, policy="test")
    sandbox.release("effect", "late")
    go("finish")
    assert state_of(job) == (REFUSED, "stale")
    assert agent.get(timeout=HANG_GUARD) == "done"
    assert of_key(run.task_id, "late").label is Label.COMPLETED_BEFORE
    assert (run.context(), sandbox.writes(task="late")) == ([], 1)
    assert (RunRow.objects.get(task=late.task_id).state, halted(late)) == ("stopped", True)
    assert list(differences()) == []


def test_what_people_typed_is_held_and_no_hook_of_the_end_runs_on_a_stop(
    sandbox: SandboxClient, store: redis.Redis, ann: User
) -> None:
    """Three follow-ups wait for an agent that is a job. Celery's own hook of a success, a linked job, is not sent."""
    run = begin("Follow up", owner=ann)
    for text in ("one", "two", "three"):
        add(run.task_id, text, by=ann)
    sandbox.hold("received", "first")
    job = follow_up.apply_async(run=run, link=step.s("linked"))
    sandbox.wait("received", "first")
    stop(run.task_id, by=ann)
    sandbox.release("received", "first")
    assert state_of(job) == (REFUSED, "stopped")
    told = store.blpop(["told:hooks"], int(HANG_GUARD))
    assert told is not None and json.loads(told[1]) == ["stopped"]
    assert states(run.task_id) == [InputState.HELD] * 3
    assert store.llen("begun:linked") == 0
    assert sum(sandbox.writes(task=label) for label in ("one", "two", "three", "linked")) == 0


def test_stopping_many_finished_tasks_harms_no_job(sandbox: SandboxClient, ann: User) -> None:
    """A job is under way meanwhile, and the worker takes the next one."""
    tasks, run = finished_tasks(ann, MANY), begin("Notify", owner=ann)
    sandbox.hold("received", "job")
    job = notify.apply_async(("job",), run=run)
    sandbox.wait("received", "job")
    assert {stop(task, by=ann, run=1).stopped for task in tasks} == {False}
    sandbox.release("received", "job")
    assert job.get(timeout=HANG_GUARD) == "told job"
    assert notify.apply_async(("next",), run=run).get(timeout=HANG_GUARD) == "told next"
    assert refusals(run) == {}


def test_with_the_gate_and_the_look_before_the_send_broken_a_job_of_a_stopped_task_sends(
    sandbox: SandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all these tests would show. Each of the two holds alone; the job runs where it is sent, in this process."""
    run = begin("Broken")
    stop(run.task_id, policy="test")

    def sent(label: str) -> int:
        notify.apply((label,), headers={HEADER: run.token})
        return sandbox.writes(task=label)

    assert sent("whole") == 0
    for name in ("POSTGRESQL", "SQLITE"):
        open_for_all = getattr(gate, name).replace("AND state = 'active' AND live_run = %(run)s", "")
        assert open_for_all != getattr(gate, name)
        monkeypatch.setattr(gate, name, open_for_all)
    assert sent("gate broken") == 0
    monkeypatch.setattr(Dispatched, "require", lambda self: None)
    assert sent("both broken") == 1
