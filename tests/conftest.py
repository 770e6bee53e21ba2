"""What the tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from django.utils import timezone, translation
from pytest_django.fixtures import Settings
from pytest_django.plugin import DjangoDbBlocker

from agentstop.testing.ending import end
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import sandbox_connector
from agentstop.testing.sandbox.process import RunningSandbox

pytest_plugins = ["agentstop.testing.plugin"]

BROWSER = Path(__file__).parent / "browser"
HANG_GUARD = 60.0  # seconds after which a test that waits for another thread or process has hung
THREADS = 64

InThread = Callable[..., Future[Any]]


def pytest_configure() -> None:
    # A shell starts what it runs in the background with Ctrl-C ignored; what the tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BROWSER in item.path.parents:
            item.add_marker("browser")


def pytest_unconfigure() -> None:
    # Where a connection outlived the database, SQLite leaves the files beside it.
    name = configured.DATABASES["default"].get("TEST", {}).get("NAME")
    for suffix in ("", "-wal", "-shm") if name else ():
        Path(name + suffix).unlink(missing_ok=True)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database, emptied and dropped when everybody is gone: a process that was killed is, a moment later."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            _until_nobody_else_is_connected()


def _until_nobody_else_is_connected() -> None:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    give_up = monotonic() + HANG_GUARD
    with connection.cursor() as cursor:
        while monotonic() < give_up:
            cursor.execute(others)
            if cursor.fetchone() == (0,):
                return
            sleep(0.1)


@pytest.fixture(autouse=True)
def ended(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test sends or listens to has come to its end before its database is emptied."""
    if "transactional_db" in request.fixturenames:
        request.getfixturevalue("transactional_db")
    yield
    end()


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
    """A request leaves its language and time zone to the next one in its thread: none to the next test."""
    yield
    translation.deactivate()
    timezone.deactivate()


@pytest.fixture
def in_thread(ended: None) -> Iterator[InThread]:
    """Starts a function in a thread with connections of its own; its error fails the test, asked for or not."""
    started: list[Future[Any]] = []
    with ThreadPoolExecutor(THREADS) as pool:

        def start(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
            started.append(pool.submit(_with_own_connections, function, *args, **kwargs))
            return started[-1]

        yield start
    for future in started:
        future.result(HANG_GUARD)


def _with_own_connections(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    finally:
        connections.close_all()


@pytest.fixture(scope="session")
def sandbox_process(agentstop_sandbox_process: RunningSandbox) -> RunningSandbox:
    """One sandbox provider on a real socket for the whole run."""
    return agentstop_sandbox_process


@pytest.fixture
def sandbox(sandbox_process: RunningSandbox, settings: Settings, ended: None) -> Iterator[SandboxClient]:
    """The sandbox with an empty ledger, as connector `sandbox`; `tools` is for code of the test's own."""
    settings.AGENTSTOP_CONNECTORS = {"sandbox": sandbox_connector(sandbox_process.address), "tools": {}}
    sandbox_process.client.reset()
    yield sandbox_process.client
    sandbox_process.client.reset()  # whoever is still held goes on, so that the sends can end


@pytest.fixture
def tools(settings: Settings) -> None:
    """Connector `tools`: only a name, the test's own code sends."""
    settings.AGENTSTOP_CONNECTORS = {"tools": {}}


@pytest.fixture
def ann(transactional_db: None) -> User:
    """Owns tasks."""
    return User.objects.create_user("ann", password="ann")


@pytest.fixture
def ben(transactional_db: None) -> User:
    """Owns nothing and may nothing."""
    return User.objects.create_user("ben", password="ben")


@pytest.fixture
def olga(transactional_db: None) -> User:
    """An operator: may see all tasks, stop them and start runs of them."""
    olga = User.objects.create_user("olga", password="olga", is_staff=True)
    wanted = ["view_task", "view_operation", "stop_task", "start_run", "pause_task", "freeze_dispatch"]
    olga.user_permissions.set(Permission.objects.filter(content_type__app_label="agentstop", codename__in=wanted))
    return olga


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """`DATABASE_URL` of the test database, for a child process that runs on `tests.settings`."""
    return url_of_database()


def url_of_database() -> str:
    """Of the database at hand."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    login = settings["USER"] + (f":{settings['PASSWORD']}" if settings["PASSWORD"] else "")
    return f"postgres://{login}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"
