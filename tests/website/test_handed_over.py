"""Agents of the demo whose steps are jobs of a queue: Stop on a chain of Celery jobs, on jobs of Django's tasks. R10.

The provider's ledger is the referee, and the page says what the domain does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agentstop import reconcile
from agentstop.models import Run as RunRow
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread, url_of_database
from tests.counted import eventually
from tests.observed import of_key
from tests.races.pages import on_the_page, told
from tests.redis_server import redis_program, running_redis
from tests.scaling.site import Process
from website.demo import queue
from website.demo.agents import Agents
from website.demo.models import Job

WISHES: dict[str, Any] = {"topic": "figures", "channel": "#team", "pace": 0.0, "troubled": "report", "troubles": []}
KEYS = ("report:figures", "upload:figures", "notify:#team:figures")

Work = Callable[[], object]


@pytest.fixture
def chain(sandbox: SandboxClient) -> Iterator[Work]:
    """A worker of Celery's, which works by itself."""
    if redis_program() is None:
        pytest.skip("There is no redis-server here. Try: apt-get install redis-server")
    from website.demo import celery_jobs

    with running_redis() as path:
        celery_jobs.app.conf.broker_url = broker = f"redis+socket://{path}"
        environment = {"DJANGO_SETTINGS_MODULE": "website.settings", "SECRET_KEY": "tests only", "DEMO_BROKER": broker}
        environment |= {"DATABASE_URL": url_of_database(), "SANDBOX_ADDRESS": sandbox.address}
        words = ["celery", "-A", "website.demo.celery_jobs", "worker", "--pool", "threads", "-c", "2", "-l", "WARNING"]
        worker = Process([*words, "--without-gossip", "--without-mingle"], environment, celery_jobs.READY)
        try:
            worker.until_ready()
            yield lambda: None
        finally:
            sandbox.reset()
            worker.end()
            celery_jobs.app.close()


@pytest.fixture
def tasks(in_thread: InThread) -> Work:
    """A worker of the database backend, for the three jobs that there are at the most."""
    pytest.importorskip("django_tasks_db")
    from tests.integrations.django_tasks.worker import work

    return lambda: in_thread(work, 3)


@pytest.mark.parametrize("kind", ["chain", "tasks"])
def test_a_stop_between_the_jobs_of_a_queue_leaves_the_rest_unsent_and_the_page_says_so(
    request: pytest.FixtureRequest, browser: Client, ann: User, sandbox: SandboxClient, kind: str
) -> None:
    work: Work = request.getfixturevalue(kind)
    sandbox.hold("received", "figures.pdf")
    job = queue.enqueue(ann, {**WISHES, "kind": kind})
    with Agents(1):
        eventually(lambda: Job.objects.get(pk=job.pk).note, "handed over")
    work()
    sandbox.wait("received", "figures.pdf", seconds=HANG_GUARD)
    pressed = browser.post(f"/tasks/{job.task_id}/stop/", {"run": "1"})
    assert pressed.status_code == 302
    sandbox.release("received", "figures.pdf")
    ends = [Label.COMPLETED_BEFORE, Label.COMPLETED_BEFORE, Label.NOT_SENT]
    eventually(lambda: (reconcile.work(), [of_key(job.task_id, key).label for key in KEYS])[1], ends)
    eventually(lambda: RunRow.objects.get(task=job.task_id).halted_at is not None, True)  # the job has heard of it
    assert sandbox.writes(task=f"task {job.task_id}") == 2
    page = browser.get(f"/tasks/{job.task_id}/").content.decode()
    assert on_the_page(page) == told(job.task_id)
    assert list(differences()) == []
