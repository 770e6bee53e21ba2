"""A worker of `django.tasks` that is killed in the middle of its job, which is then given to another. R11, R20, R22."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentstop.integrations.django_tasks import refusal_of
from agentstop.models import Operation
from agentstop.reconcile import work
from agentstop.runs import begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.conftest import url_of_database
from tests.counted import eventually
from tests.integrations.django_tasks import jobs
from tests.integrations.django_tasks.conftest import WorkerProcess, Workers
from tests.integrations.django_tasks.test_jobs import delivered_again
from tests.observed import of_key

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def doomed(sandbox: SandboxClient) -> Iterator[WorkerProcess]:
    """Noticed soon when it is dead."""
    worker = WorkerProcess(url_of_database())
    worker.configure(sandbox.address, LEASE=1.0, LEASE_MARGIN=0.5)
    yield worker
    worker.end()


@pytest.mark.parametrize("stopped", [False, True], ids=["goes on", "stopped meanwhile"])
def test_a_job_of_django_whose_worker_was_killed_after_its_effect_has_no_second_one(
    sandbox: SandboxClient, doomed: WorkerProcess, workers: Workers, stopped: bool
) -> None:
    """The provider honours the key, so a live run may ask once more; after a stop nothing is sent, only looked up.

    The backend leaves the job running for ever: what became of its operation is known all the same.
    """
    run = begin("Notify")
    sandbox.hold("effect", "main")
    job = jobs.notify.using(run=run).enqueue("main")
    doomed.job()
    sandbox.wait("effect", "main")
    doomed.kill()
    if stopped:
        stop(run.task_id, policy="test")
    sandbox.release("effect", "main")
    eventually(lambda: (work(), of_key(run.task_id, "main").state)[1], "succeeded")
    assert of_key(run.task_id, "main").label is (Label.COMPLETED_BEFORE if stopped else Label.COMPLETED)
    job.refresh()
    assert job.status == "RUNNING"
    delivered_again(job)
    workers.do()
    job.refresh()
    refusal = refusal_of(job)
    assert (job.status, refusal.reason if refusal else "") == ("SUCCESSFUL", "stopped" if stopped else "")
    key = str(Operation.objects.get(task=run.task_id).idempotency_key)
    assert (sandbox.writes(task="main"), len(sandbox.effects(key))) == (1, 1)
