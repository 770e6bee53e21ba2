"""Celery's workers and beat do the follow-up work, alone or beside an `agentstop_worker` (R1, R20, R21, R22).

Real workers on a real Redis. What is due are rows; a job only wakes.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, Task
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop import checks, database, models, reconcile, sending, signals
from agentstop.integrations.celery import follow_ups
from agentstop.integrations.celery.headers import stamped
from agentstop.models import Operation
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.barriers import Barrier, held_at
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.process import RunningSandbox
from agentstop.turns import FollowUps
from agentstop.words.wording import Label
from agentstop.working import working
from tests.conftest import HANG_GUARD, InThread, url_of_database
from tests.counted import eventually
from tests.observed import of_key
from tests.redis_server import redis_program, running_redis
from tests.scaling.site import Process, beat, worker

pytestmark = pytest.mark.django_db(transaction=True)

Start = Callable[..., Process]
LONG = {"FOLLOW_UP_BASE": 600.0, "FOLLOW_UP_CAP": 600.0}  # what was asked once is not asked again within a test


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    if redis_program() is None:
        pytest.skip("There is no redis-server here. Try: apt-get install redis-server")
    with running_redis() as path:
        yield f"redis+socket://{path}"


@pytest.fixture(scope="module")
def launch(broker: str, sandbox_process: RunningSandbox, django_db_setup: None) -> Start:
    """Starts a process of the site on the test database."""
    environment = {"DJANGO_SETTINGS_MODULE": "tests.scaling.settings", "SECRET_KEY": "tests only", "BROKER": broker}
    environment |= {"DATABASE_URL": url_of_database(), "SANDBOX_ADDRESS": sandbox_process.address}
    environment["QUICK"] = json.dumps(LONG)
    return lambda words, ready: Process(words, environment, ready)


@pytest.fixture(scope="module")
def workers(launch: Start) -> Iterator[None]:
    """Two of Celery's, and nothing else."""
    both = [launch(worker(name, "-Q", "jobs,follow_up"), "worker ready") for name in ("one", "two")]
    for each in both:
        each.until_ready()
    yield
    for each in both:
        each.end()


@pytest.fixture
def start(launch: Start, sandbox: SandboxClient) -> Iterator[Start]:
    """Starts a process that ends with the test."""
    started: list[Process] = []

    def begun(words: list[str], ready: str) -> Process:
        started.append(launch(words, ready))
        started[-1].until_ready()
        return started[-1]

    yield begun
    for process in started:
        process.end()


@pytest.fixture
def app(broker: str) -> Iterator[Celery]:
    """The application as a process has it that only sends."""
    app = Celery("sends", broker=broker, backend=broker, set_as_current=False)
    app.conf.task_routes = {follow_ups.NAME: {"queue": "follow_up"}}
    yield app
    app.control.purge()
    app.close()


@contextmanager
def set_up(app: Celery) -> Iterator[None]:
    """As where the settings name the application."""
    follow_ups.set_up(app)
    try:
        yield
    finally:
        signals.tasks_stopped.disconnect(sender=models.Task, dispatch_uid=follow_ups.NAME)


@pytest.fixture
def hints(app: Celery) -> Iterator[None]:
    """A stop in this process sends a hint."""
    with set_up(app):
        yield


def under_way(sandbox: SandboxClient, in_thread: InThread, label: str = "main") -> Run:
    """A report that its provider has accepted and works on."""
    sandbox.hold("working", label)
    run = begin("Report")
    words = {"label": label, "text": label, "seconds": 0}
    in_thread(run.call, "report.create", words, key="report", connector="sandbox")
    sandbox.wait("working", label)
    eventually(lambda: of_key(run.task_id, "report").state, "accepted")
    return run


def due_since(run: Run, minutes: int) -> None:
    rows = Operation.objects.filter(task=run.task_id)
    rows.update(follow_up_at=database.now() - timedelta(minutes=minutes))


def look_ups() -> str:
    told: str = Client().get(reverse("agentstop:healthz")).json()["look_ups"]
    return told


def monitor() -> int:
    """The exit status for monitors."""
    try:
        call_command("agentstop_status", fail_on="look_ups_not_running", stdout=StringIO())
    except SystemExit as ended:
        return int(str(ended.code))
    return 0


def asked(sandbox: SandboxClient, run: Run) -> dict[str, int]:
    """What the provider was asked, how often."""
    return sandbox.counts(str(Operation.objects.get(task=run.task_id).idempotency_key))


def to_be_looked_up(sandbox: SandboxClient, in_thread: InThread) -> Run:
    """One that nobody has asked about, due now."""
    run = under_way(sandbox, in_thread)
    stop(run.task_id, policy="test", cancel=False)
    assert asked(sandbox, run)["reads"] == 0
    due_since(run, minutes=0)
    return run


def followed(app: Celery) -> int:
    """How many operations several jobs at once have followed up."""
    jobs = [app.send_task(follow_ups.NAME, ignore_result=False) for _ in range(6)]
    return sum(job.get(timeout=HANG_GUARD) for job in jobs)


@pytest.mark.usefixtures("workers")
def test_with_beat_no_other_worker_is_needed_and_without_it_it_is_said_that_look_ups_do_not_run(
    start: Start, sandbox: SandboxClient, in_thread: InThread, tmp_path: Path
) -> None:
    run = under_way(sandbox, in_thread)
    stop(run.task_id, policy="test")  # by a process that knows nothing of Celery
    due_since(run, minutes=5)
    assert (look_ups(), monitor()) == ("not running", 1)
    start(beat(tmp_path), "beat: Starting...")
    eventually(lambda: of_key(run.task_id, "report").label, Label.CANCELLED)
    assert (look_ups(), monitor()) == ("running", 0)
    [effect] = sandbox.settled("main")
    assert effect["state"] == "cancelled"


@pytest.mark.usefixtures("workers", "hints")
def test_a_stop_wakes_a_worker_though_beat_is_dead_and_nothing_is_asked_twice_beside_an_agentstop_worker(
    start: Start, sandbox: SandboxClient, in_thread: InThread, app: Celery
) -> None:
    run = under_way(sandbox, in_thread)
    sandbox.hold("cancel", "main")
    stop(run.task_id, policy="test")
    sandbox.wait("cancel", "main", seconds=HANG_GUARD / 2)  # a hint alone has brought it there
    start(["django", "agentstop_worker"], "agentstop worker: ready")
    assert followed(app) == 0
    sandbox.release("cancel", "main")
    eventually(lambda: of_key(run.task_id, "report").label, Label.CANCELLED)
    assert asked(sandbox, run)["cancels"] == 1


@pytest.mark.usefixtures("workers")
def test_jobs_of_two_workers_at_once_look_a_row_up_once(
    sandbox: SandboxClient, in_thread: InThread, app: Celery
) -> None:
    run = to_be_looked_up(sandbox, in_thread)
    assert followed(app) == 1
    assert asked(sandbox, run)["reads"] == 1


def test_without_leases_jobs_at_once_look_a_row_up_twice(
    sandbox: SandboxClient, in_thread: InThread, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same jobs, with the guard taken out."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = settings.AGENTSTOP_FOLLOW_UP_CAP = 600.0
    run = to_be_looked_up(sandbox, in_thread)
    monkeypatch.setattr(reconcile, "_due", lambda operations, at: None)
    barrier = Barrier("report", lambda: None)
    with held_at("P5", barrier):  # neither is answered before both have asked
        assert [follow_ups.Shifts().work(0.0), follow_ups.Shifts().work(0.0)] == [1, 1]
        barrier.open()
        sending.close()
    assert asked(sandbox, run)["reads"] == 2


def test_a_job_that_failed_is_not_tried_again_by_celery_though_the_sites_own_base_would(
    monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> None:
    """The row stays due, and the next job does it."""
    tried: list[str] = []

    def unreachable(*_: Any) -> None:
        tried.append("once")
        raise OperationalError("the server is restarting")

    class Stubborn(Task):  # type: ignore[misc]
        autoretry_for = (Exception,)
        retry_kwargs = {"max_retries": 3, "countdown": 0}

    monkeypatch.setattr(reconcile, "start", unreachable)
    app = Celery("own", broker="memory://", task_cls=Stubborn, set_as_current=False)
    other = app.task(follow_ups.follow_up, name="other", shared=False)
    assert (other.apply().state, len(tried)) == ("FAILURE", 4)
    tried.clear()
    with set_up(app):
        assert (app.tasks[follow_ups.NAME].apply().state, len(tried)) == ("FAILURE", 1)


def test_a_job_ends_though_a_provider_hangs(sandbox: SandboxClient, in_thread: InThread) -> None:
    run, other = under_way(sandbox, in_thread, "hangs"), under_way(sandbox, in_thread, "other")
    sandbox.hold("cancel", "hangs")
    work = FollowUps()
    stop(run.task_id, policy="test")
    assert work.shift(0.0) == 1
    sandbox.wait("cancel", "hangs")
    stop(other.task_id, policy="test")
    assert work.shift(HANG_GUARD) == 1, "it waits for what it has begun itself"
    assert of_key(other.task_id, "report").label is Label.CANCELLED
    sandbox.release("cancel", "hangs")
    eventually(lambda: of_key(run.task_id, "report").label, Label.CANCELLED)


def test_a_broker_that_does_not_answer_holds_up_no_stop(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(HANG_GUARD)
        app = Celery("sends", broker=f"redis://127.0.0.1:{silent.getsockname()[1]}", set_as_current=False)
        app.conf.update(broker_transport_options={"max_retries": 0}, task_publish_retry=False)
        with set_up(app), caplog.at_level(logging.WARNING):
            assert stop(begin("Report").task_id, policy="test").stopped
            silent.accept()[0].close()  # it was at it, and is told only now
            silent.close()
            eventually(lambda: [getattr(each, "action", "") for each in caplog.records].count("hint_failed"), 1)


def test_a_hint_carries_no_run_to_the_broker(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    sent: list[dict[str, Any]] = []
    app = Celery("sends", broker="memory://", set_as_current=False)
    monkeypatch.setattr(app, "send_task", lambda name, **how: sent.append(stamped({})))
    with working(begin("Report")), set_up(app):
        assert stamped({}) != {}
        stop(begin("Other").task_id, policy="test")
        eventually(lambda: sent, [{}])


def test_it_is_in_the_schedule_once_and_gives_way_to_the_sites_own() -> None:
    app = Celery("own", broker="memory://", set_as_current=False)
    with set_up(app), set_up(app):
        assert [entry["schedule"] for entry in app.conf.beat_schedule.values()] == [follow_ups.EVERY]
    app = Celery("own", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {"mine": {"task": follow_ups.NAME, "schedule": 30.0}}
    with set_up(app):
        assert list(app.conf.beat_schedule) == ["mine"]


def test_a_schedule_that_has_lost_it_and_an_application_that_is_none_are_told_by_the_checks(settings: Settings) -> None:
    settings.AGENTSTOP_CELERY_APP = f"{__name__}.forgetful"
    with set_up(forgetful):
        assert found() == []
        forgetful.conf.beat_schedule = {}
        assert found() == ["agentstop.W010"]
    settings.AGENTSTOP_CELERY_APP = "website.settings.USE_TZ"
    assert found() == ["agentstop.E013"]


forgetful = Celery("forgetful", broker="memory://", set_as_current=False)


def found() -> list[str]:
    messages = checks.check_settings()
    assert all(message.hint for message in messages)
    return [str(message.id) for message in messages]
