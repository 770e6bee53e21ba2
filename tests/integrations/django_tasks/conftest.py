"""Jobs on the database backend, worked off by its own worker: in threads, or in a process that may be killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agentstop.runs import Run
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import InThread, url_of_database
from tests.races.conftest import play  # noqa: F401  a fixture of the rows that are played here too
from tests.races.senders import OtherProcess

pytest.importorskip("django_tasks_db")

from tests.integrations.django_tasks import jobs
from tests.integrations.django_tasks.worker import work

HELD = 120.0  # seconds for which a send may be held, on a busy machine too


class WorkerProcess(OtherProcess):
    """A process whose worker takes a job for each one that is sent."""

    MODULE = "tests.integrations.django_tasks"

    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        jobs.ask.using(run=run).enqueue(name, action, dict(args), name)
        self.job()

    def job(self) -> None:
        """Take the next one."""
        self._do("job")


class Workers:
    """Workers in threads of the test's own process."""

    def __init__(self, in_thread: InThread) -> None:
        self._in_thread = in_thread

    def begin(self, count: int = 1) -> Future[None]:
        return self._in_thread(work, count)

    def do(self, count: int = 1) -> None:
        self.begin(count).result(HELD)


@pytest.fixture
def workers(in_thread: InThread) -> Workers:
    return Workers(in_thread)


@pytest.fixture(scope="module")
def process(django_db_setup: None) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(url_of_database())
    yield worker
    worker.end()


@pytest.fixture(autouse=True)
def patient(settings: Settings, sandbox: SandboxClient) -> Iterator[None]:
    """What is due is due now; what an earlier test told is forgotten."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    settings.AGENTSTOP_DEADLINE = HELD
    settings.SANDBOX_ADDRESS = sandbox.address
    yield
    sandbox.reset()
    for gate in jobs.GO.values():
        gate.set()
    jobs.AT.clear()
    jobs.GO.clear()
