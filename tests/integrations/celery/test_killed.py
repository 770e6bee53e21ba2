"""Workers that are killed, and queues that deliver again: prefork processes, late acknowledgement. R11, R20, R22.

A job without a gate has its effect twice. With one the same key is the same effect, and after a stop nothing is sent.
"""

from __future__ import annotations

import os
import signal

import pytest
import redis

from agentstop.integrations.celery import REFUSED
from agentstop.models import Operation
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.counted import eventually
from tests.integrations.celery.app import hears, notify, ungated
from tests.integrations.celery.conftest import StartWorker, state_of, until
from tests.integrations.celery.servers import Worker
from tests.observed import of_key

pytestmark = pytest.mark.django_db(transaction=True)

QUICK = {"LEASE": 1.0, "LEASE_MARGIN": 0.5}  # a dead sender is noticed soon


@pytest.fixture(scope="module")
def prefork(start_worker: StartWorker) -> Worker:
    """Two processes."""
    return start_worker(pool="prefork", at_once=2, **QUICK)


def pid_of(store: redis.Redis, label: str) -> int:
    found = store.blpop([f"pid:{label}"], int(HANG_GUARD))
    assert found is not None
    return int(found[1])


def killed_after_its_effect(sandbox: SandboxClient, store: redis.Redis, label: str) -> None:
    """The provider has done it, and nobody has heard."""
    sandbox.wait("effect", label)
    os.kill(pid_of(store, label), signal.SIGKILL)


@pytest.mark.usefixtures("prefork")
def test_ungated_a_job_whose_process_was_killed_is_delivered_again_and_has_its_effect_twice(
    sandbox: SandboxClient, store: redis.Redis
) -> None:
    sandbox.hold("effect", "wild")
    job = ungated.apply_async(("wild",))
    killed_after_its_effect(sandbox, store, "wild")
    pid_of(store, "wild")
    sandbox.release("effect", "wild")
    job.get(timeout=60)
    assert sandbox.writes(task="wild") == 2


@pytest.mark.usefixtures("prefork")
@pytest.mark.parametrize("stopped", [False, True], ids=["goes on", "stopped meanwhile"])
def test_a_job_whose_process_was_killed_after_its_effect_has_no_second_one(
    sandbox: SandboxClient, store: redis.Redis, stopped: bool
) -> None:
    """The provider honours the key, so a live run may ask once more; after a stop nothing is sent, only looked up."""
    run = begin("Notify")
    sandbox.hold("effect", "main")
    job = notify.apply_async(("main",), run=run)
    sandbox.wait("effect", "main")
    if stopped:
        stop(run.task_id, policy="test")
    killed_after_its_effect(sandbox, store, "main")
    sandbox.release("effect", "main")
    assert state_of(job) == ((REFUSED, "stopped") if stopped else ("SUCCESS", ""))
    assert settled(run) is (Label.COMPLETED_BEFORE if stopped else Label.COMPLETED)
    assert sandbox.writes(task="main") == 1
    assert sandbox.counts(idempotency_key(run))["submits"] == (1 if stopped else 2)
    assert len(run.context()) == (not stopped)


def settled(run: Run) -> Label:
    def over() -> bool:
        work()
        return of_key(run.task_id, "main").state == "succeeded"

    eventually(over, True)
    return of_key(run.task_id, "main").label


@pytest.mark.usefixtures("prefork")
def test_a_job_in_a_process_of_its_own_hears_the_stop_too() -> None:
    run = begin("Listen")
    job = hears.apply_async(("main",), run=run)
    until("begun:main")
    stop(run.task_id, policy="test")
    assert job.get(timeout=60) is True


@pytest.mark.parametrize("stopped", [False, True], ids=["goes on", "stopped meanwhile"])
def test_a_worker_that_is_gone_leaves_its_job_to_the_next_one(
    start_worker: StartWorker, sandbox: SandboxClient, store: redis.Redis, stopped: bool
) -> None:
    """The queue holds the job until its visibility time-out; who gets it then asks the gate."""
    run, queue = begin("Notify"), f"gone {stopped}"
    first = start_worker(queue=queue, **QUICK)
    sandbox.hold("effect", "main")
    job = notify.apply_async(("main",), run=run, queue=queue)
    sandbox.wait("effect", "main")
    first.kill()
    sandbox.release("effect", "main")
    if stopped:
        stop(run.task_id, policy="test")
    time_out(store)
    start_worker(queue=queue, **QUICK)
    assert state_of(job) == ((REFUSED, "stopped") if stopped else ("SUCCESS", ""))
    assert (sandbox.writes(task="main"), settled(run).value.split("_")[0]) == (1, "completed")


def test_a_job_that_outlives_the_visibility_time_out_is_run_by_two_workers_and_has_one_effect(
    start_worker: StartWorker, sandbox: SandboxClient, store: redis.Redis
) -> None:
    run, queue = begin("Notify"), "slow"
    start_worker(queue=queue)
    sandbox.hold("received", "main")
    job = notify.apply_async(("main",), run=run, queue=queue)
    sandbox.wait("received", "main")
    pid_of(store, "main")
    time_out(store)
    start_worker(queue=queue)
    eventually(lambda: Operation.objects.get(task=run.task_id).decisions.filter(reason="in_flight").exists(), True)
    sandbox.release("received", "main")
    assert job.get(timeout=60) == "told main"
    eventually(lambda: store.zcard("unacked_index"), 0)
    assert (sandbox.writes(task="main"), len(sandbox.effects(idempotency_key(run)))) == (1, 1)


def idempotency_key(run: Run) -> str:
    return str(Operation.objects.get(task=run.task_id).idempotency_key)


def time_out(store: redis.Redis) -> None:
    """What is not acknowledged is as old as if the visibility time-out were over."""
    for tag, _ in store.zscan_iter("unacked_index"):
        store.zadd("unacked_index", {tag: 1.0})
