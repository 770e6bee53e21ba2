"""Real workers on a Redis of their own, for the length of a module; jobs tell what they did through it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery.result import AsyncResult
from pytest_django.fixtures import Settings

from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.process import RunningSandbox
from tests.conftest import HANG_GUARD, url_of_database
from tests.counted import eventually
from tests.integrations.celery import app as jobs
from tests.integrations.celery.servers import Worker
from tests.races.conftest import play  # noqa: F401  a fixture of the rows that are played here too
from tests.redis_server import redis_program, running_redis

HELD = 120.0  # seconds for which a send may be held, on a busy machine too
OWN = ("got:*", "at:*", "go:*", "done:*", "begun:*", "heard:*", "tried:*", "hold:*", "pid:*", "told:*")

StartWorker = Callable[..., Worker]


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    if redis_program() is None:
        pytest.skip("There is no redis-server here. Try: apt-get install redis-server")
    with running_redis() as path:
        yield path


@pytest.fixture(scope="session")
def store(broker: str) -> Iterator[redis.Redis]:
    """Redis, for this process; Celery's application sends there too."""
    jobs.store = jobs.connect(broker)
    yield jobs.store
    jobs.app.close()
    jobs.store.close()


@pytest.fixture(scope="module")
def start_worker(
    broker: str, store: redis.Redis, sandbox_process: RunningSandbox, django_db_setup: None
) -> Iterator[StartWorker]:
    """Starts a worker on the test database; all of them end with the module."""
    started: list[Worker] = []

    def start(**how: Any) -> Worker:
        started.append(Worker(broker, sandbox_process.address, url_of_database(), **{"DEADLINE": HELD, **how}))
        started[-1].until_ready(store)
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture(scope="module")
def worker(start_worker: StartWorker) -> Worker:
    """Four threads."""
    return start_worker()


@pytest.fixture(autouse=True)
def patient(settings: Settings, sandbox: SandboxClient, store: redis.Redis) -> Iterator[None]:
    """What is due is due now; what an earlier test told is forgotten."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    settings.AGENTSTOP_DEADLINE = HELD
    settings.SANDBOX_ADDRESS = sandbox.address
    jobs.app.set_current()  # canvases ask for it; another test may have made one since
    forget(store)
    yield
    sandbox.reset()  # whoever is still held goes on
    eventually(lambda: (store.llen("jobs"), store.zcard("unacked_index")), (0, 0))  # no job outlives its test


def forget(store: redis.Redis) -> None:
    for pattern in OWN:
        for key in store.scan_iter(pattern):
            store.delete(key)


def until(key: str, times: int = 1) -> None:
    """Until a job has told so."""
    for _ in range(times):
        assert jobs.store.blpop([key], int(HANG_GUARD)) is not None, f"nobody told of {key}"


def go(name: str) -> None:
    jobs.store.rpush(f"go:{name}", "go")


def told(name: str) -> dict[str, str]:
    found = jobs.store.blpop([f"got:{name}"], int(HANG_GUARD))
    assert found is not None, f"job {name} never told what it got"
    said: dict[str, str] = json.loads(found[1])
    return said


def state_of(result: AsyncResult) -> tuple[str, str]:
    """The job's state as soon as it is over for the worker, and why."""
    eventually(lambda: result.state in ("REFUSED", "SUCCESS", "FAILURE", "REVOKED"), True)
    info = result.info
    return result.state, info.get("reason", "") if isinstance(info, dict) else ""
