"""Each system check fires where it should, tells its cure, and is silenced by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.core.asgi import get_asgi_application
from django.core.checks import CheckMessage, Error, Warning, run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, connections
from django.urls import path
from pytest_django.fixtures import Settings

from agentstop import checks, conf
from agentstop.routing import websocket_urlpatterns
from agentstop.socket_checks import check_sockets

ROOT = Path(__file__).resolve().parent.parent
SQLITE = {"transaction_mode": "IMMEDIATE", "timeout": 30}

on_sqlite = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="about SQLite")
on_postgresql = pytest.mark.skipif("connection.vendor != 'postgresql'", reason="about PostgreSQL")


@contextmanager
def connected(engine: str = "sqlite3", name: str = "x.sqlite3", **changes: Any) -> Iterator[None]:
    """The default connection as these settings make it; nothing connects."""
    before = connections["default"]
    connections.settings["default"] = connections.settings["default"] | {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": name,
        "ATOMIC_REQUESTS": False,
        **changes,
    }
    connections["default"] = connections.create_connection("default")
    try:
        yield
    finally:
        connections.settings["default"] = before.settings_dict
        connections["default"] = before


def ids(messages: list[CheckMessage]) -> list[str]:
    assert all(message.hint for message in messages)
    return [str(message.id) for message in messages]


@pytest.mark.django_db  # from Django 6.1 on all checks include those of the database
def test_the_settings_of_the_tests_are_clean() -> None:
    ours = [message for message in run_checks() if str(message.id).startswith("agentstop.")]
    assert ours == []


@pytest.mark.django_db
def test_the_database_of_the_tests_is_clean() -> None:
    assert checks.check_server(databases=["default"]) == []


@pytest.mark.django_db
def test_the_command_refuses_an_error(settings: Settings) -> None:
    settings.AGENTSTOP_MAY = "nowhere.rule"
    with pytest.raises(SystemCheckError, match=r"agentstop\.E006"):
        call_command("check")


def test_sqlite_must_start_transactions_with_a_lock() -> None:
    with connected(OPTIONS={"timeout": 30}):
        assert ids(checks.check_database()) == ["agentstop.E002"]
    with connected(OPTIONS={"timeout": 30, "transaction_mode": "deferred"}):
        assert ids(checks.check_database()) == ["agentstop.E002"]
    with connected(OPTIONS=SQLITE):
        assert checks.check_database() == []


def test_sqlite_ought_to_be_patient() -> None:
    with connected(OPTIONS={"transaction_mode": "IMMEDIATE"}):
        assert ids(checks.check_database()) == ["agentstop.W004"]
    with connected(OPTIONS=SQLITE | {"timeout": 20}):
        assert checks.check_database() == []


@pytest.mark.parametrize("name", [":memory:", "file:agents?mode=memory&cache=shared"])
def test_sqlite_in_memory_is_for_tests(name: str) -> None:
    with connected(name=name, OPTIONS=SQLITE):
        assert ids(checks.check_database()) == ["agentstop.W002"]
    with connected(name="file:memorydb_default?mode=memory&cache=shared", OPTIONS=SQLITE):
        assert checks.check_database() == []


def test_an_old_sqlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(OPTIONS=SQLITE):
        monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
        assert ids(checks.check_database()) == ["agentstop.E007"]
        monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 35, 0))
        assert checks.check_database() == []


def test_other_databases_are_refused() -> None:
    with connected("dummy"):
        assert ids(checks.check_database()) == ["agentstop.E001"]


@pytest.mark.parametrize("engine", ["sqlite3", "postgresql"])
def test_atomic_requests_are_told_of(engine: str) -> None:
    options = SQLITE if engine == "sqlite3" else {}
    with connected(engine, OPTIONS=options, ATOMIC_REQUESTS=True):
        assert ids(checks.check_database()) == ["agentstop.W001"]
    with connected(engine, OPTIONS=options):
        assert checks.check_database() == []


def test_another_isolation_level_is_refused() -> None:
    from django.db.backends.postgresql.psycopg_any import IsolationLevel

    for level in (IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE):
        with connected("postgresql", OPTIONS={"isolation_level": level}):
            [message] = checks.check_database()
        assert message.id == "agentstop.E003"
        assert level.name.lower().replace("_", " ") in message.msg
    for options in ({}, {"isolation_level": IsolationLevel.READ_COMMITTED}):
        with connected("postgresql", OPTIONS=options):
            assert checks.check_database() == []


def test_times_without_a_zone_are_refused(settings: Settings) -> None:
    settings.USE_TZ = False
    assert ids(checks.check_settings()) == ["agentstop.E004"]
    settings.USE_TZ = True
    assert checks.check_settings() == []


@pytest.mark.parametrize(
    ("name", "hint"), [("AGENTSTOP_DEADLINES", "AGENTSTOP_DEADLINE?"), ("AGENTSTOP_QQQQQQ", "Remove it.")]
)
def test_a_setting_that_does_not_exist_is_told_of(name: str, hint: str, settings: Settings) -> None:
    setattr(settings, name, 1)
    [message] = checks.check_settings()
    assert (message.id, type(message)) == ("agentstop.W003", Warning)
    assert name in message.msg
    assert hint in str(message.hint)
    delattr(settings, name)
    assert checks.check_settings() == []


@pytest.mark.parametrize("value", ["30", None, -1, True])
def test_an_amount_that_is_none_is_refused(value: Any, settings: Settings) -> None:
    settings.AGENTSTOP_DEADLINE = value
    [message] = checks.check_settings()
    assert message.id == "agentstop.E010"
    assert repr(value) in message.msg
    settings.AGENTSTOP_DEADLINE = 10
    assert checks.check_settings() == []


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_what_is_neither_yes_nor_no_is_refused(value: Any, settings: Settings) -> None:
    settings.AGENTSTOP_TAKES_INPUT = value
    [message] = checks.check_settings()
    assert (message.id, "must be True or False" in message.msg) == ("agentstop.E010", True)
    settings.AGENTSTOP_TAKES_INPUT = True
    assert checks.check_settings() == []


@pytest.mark.parametrize("value", ["nowhere.rule", "agentstop.permissions.nothing", "agentstop.conf.DEFAULTS", "", 5])
def test_a_rule_that_cannot_be_used_is_refused(value: Any, settings: Settings) -> None:
    settings.AGENTSTOP_MAY = value
    assert ids(checks.check_settings()) == ["agentstop.E006"]
    settings.AGENTSTOP_MAY = "agentstop.permissions.owner_or_permission"
    assert checks.check_settings() == []


@pytest.mark.parametrize("value", ["nowhere.start", "agentstop.starting.nothing", "agentstop.conf.DEFAULTS", 5])
def test_a_runner_that_cannot_be_used_is_refused(value: Any, settings: Settings) -> None:
    settings.AGENTSTOP_RUNNER = value
    assert ids(checks.check_settings()) == ["agentstop.E011"]
    for value in ("", "agentstop.starting.start"):
        settings.AGENTSTOP_RUNNER = value
        assert checks.check_settings() == []


def test_pages_need_an_address(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.hosts.bare"
    settings.LOGIN_URL = "https://login.example.org/"  # elsewhere is not looked at
    assert ids(checks.check_pages()) == ["agentstop.W006"]
    settings.ROOT_URLCONF = "tests.urls"
    assert checks.check_pages() == []


def test_tags_need_the_request(settings: Settings) -> None:
    without = {**settings.TEMPLATES[0], "OPTIONS": {"context_processors": []}}
    settings.TEMPLATES = [without, {**without, "BACKEND": "django.template.backends.jinja2.Jinja2"}]
    assert ids(checks.check_pages()) == ["agentstop.W007"]


def test_pages_need_to_know_who_asks(settings: Settings) -> None:
    settings.MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "nowhere.Middleware"]
    assert ids(checks.check_pages()) == ["agentstop.W008"]
    settings.MIDDLEWARE = ["tests.test_checks.OwnMiddleware"]
    assert checks.check_pages() == []


class OwnMiddleware(AuthenticationMiddleware):
    """A site's own."""


@pytest.mark.parametrize("name", ["/nowhere/", "no_such_name"])
def test_people_must_be_able_to_log_in(name: str, settings: Settings) -> None:
    settings.LOGIN_URL = name
    assert ids(checks.check_pages()) == ["agentstop.W009"]
    settings.LOGIN_URL = "login"
    assert checks.check_pages() == []


class Apart:
    """Sends people elsewhere."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "people" if model._meta.app_label == "auth" else "default"


def test_what_is_referred_to_is_in_the_same_database(settings: Settings) -> None:
    settings.DATABASE_ROUTERS = ["tests.test_checks.Apart"]
    with connected(OPTIONS=SQLITE):
        [message] = checks.check_database()
    assert (message.id, "auth.User in 'people'" in message.msg) == ("agentstop.E012", True)


HTTP = "agentstop.providers.http.HttpProvider"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"PROVIDER": "nowhere.Provider"}, "No module named 'nowhere'"),
        ({"PROVIDER": "agentstop.providers.http.NoSuch"}, "NoSuch"),
        ({"PROVIDER": "agentstop.conf.DEFAULTS"}, "not callable"),
        ({"PROVIDER": "builtins.dict"}, "Make it a subclass"),
        ({"PROVIDER": HTTP}, "base_url"),
        ({"PROVIDER": HTTP, "OPTIONS": {"base_url": "ftp://x", "actions": {}}}, "base_url"),
        ({"PROVIDER": HTTP, "OPTIONS": {"base_url": "http://x", "actions": {}, "retries": 3}}, "retries"),
        ({"PROVIDERS": HTTP}, "PROVIDERS"),
        ("mail", "not a dict"),
    ],
)
def test_a_connector_that_cannot_be_made_is_told_in_the_providers_own_words(
    entry: Any, said: str, settings: Settings
) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "mail": entry}
    [message] = checks.check_connectors()
    assert (message.id, type(message)) == ("agentstop.E005", Error)
    assert "'mail'" in message.msg
    assert said in message.msg


def test_connectors_that_can_be_made_are_silent(settings: Settings) -> None:
    from agentstop.testing.sandbox.connector import sandbox_connector

    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "sandbox": sandbox_connector("http://127.0.0.1:9")}
    assert checks.check_connectors() == []


def test_connectors_are_a_dict(settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = ["mail"]
    assert ids(checks.check_connectors()) == ["agentstop.E005"]


def test_the_server_is_asked_only_where_that_database_is_checked() -> None:
    assert checks.check_server() == []
    assert checks.check_server(databases=["other"]) == []


@on_sqlite
@pytest.mark.django_db
def test_a_sqlite_file_must_survive_a_loss_of_power(tmp_path: Path) -> None:
    def asked(pragmas: str) -> list[CheckMessage]:
        with connected(name=str(tmp_path / "x.sqlite3"), OPTIONS=SQLITE | {"init_command": pragmas}):
            try:
                with connections["default"].temporary_connection():
                    return checks.check_server(databases=["default"])
            finally:
                connections["default"].close()

    assert ids(asked("PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;")) == ["agentstop.W005"]
    assert ids(asked("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;")) == ["agentstop.E009"]
    assert asked("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;") == []


@on_postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("setting", "bad", "good", "expected"),
    [
        ("synchronous_commit", "off", "local", "agentstop.E008"),
        ("default_transaction_isolation", "serializable", "read committed", "agentstop.E003"),
    ],
)
def test_a_server_that_could_lose_a_commit_or_miss_a_stop_is_refused(
    setting: str, bad: str, good: str, expected: str
) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SET {setting} = '{bad}'")
        assert ids(checks.check_server(databases=["default"])) == [expected]
        with connection.cursor() as cursor:
            cursor.execute(f"SET {setting} = '{good}'")
        assert checks.check_server(databases=["default"]) == []
    finally:
        connection.close()


def source_ids() -> set[str]:
    code = "".join((ROOT / "agentstop" / name).read_text() for name in ("checks.py", "socket_checks.py"))
    return set(re.findall(r'id="(agentstop\.[EW]\d{3})"', code))


def test_every_check_has_an_id_of_its_own_and_is_told_in_the_documents() -> None:
    told = re.findall(r"^\| `(agentstop\.[EW]\d{3})` ", OPERATING, re.MULTILINE)
    assert sorted(told) == sorted(source_ids())


OPERATING = (ROOT / "docs" / "operating.md").read_text()


def test_the_table_of_settings_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `AGENTSTOP_(\w+)` \| `(.+?)` \|", OPERATING, re.MULTILINE)
    assert dict(rows) == {name: _told(name, default) for name, default in conf.DEFAULTS.items()}


def _told(name: str, default: Any) -> str:
    return ", ".join(default) if name == "REDACT" else str(default) or '""'


def test_the_log_actions_told_are_those_of_the_code() -> None:
    code = "".join(path.read_text() for place in ("agentstop", "website") for path in (ROOT / place).rglob("*.py"))
    written = set(re.findall(r'extra ?= ?\{"action": "(\w+)"', code))
    assert set(re.findall(r"^\| `(\w+)` \| [A-Z]+ \|", OPERATING, re.MULTILINE)) == written


def routed(*urls: Any) -> Any:
    return URLRouter([*urls])


guarded = AllowedHostsOriginValidator(AuthMiddlewareStack(routed(*websocket_urlpatterns)))
APPLICATIONS = {
    "as the docs have it": (ProtocolTypeRouter({"websocket": guarded}), []),
    "below a router of the site's": (
        AllowedHostsOriginValidator(AuthMiddlewareStack(routed(path("", routed(*websocket_urlpatterns))))),
        [],
    ),
    "Django's alone": (get_asgi_application(), ["agentstop.W011"]),
    "no websockets": (ProtocolTypeRouter({"http": get_asgi_application()}), ["agentstop.W011"]),
    "other routes": (ProtocolTypeRouter({"websocket": AuthMiddlewareStack(routed())}), ["agentstop.W011"]),
    "no origin check": (
        ProtocolTypeRouter({"websocket": AuthMiddlewareStack(routed(*websocket_urlpatterns))}),
        ["agentstop.W012"],
    ),
    "nobody known": (
        ProtocolTypeRouter({"websocket": AllowedHostsOriginValidator(routed(*websocket_urlpatterns))}),
        ["agentstop.W013"],
    ),
    "something of the site's own": (ProtocolTypeRouter({"websocket": lambda *_: guarded}), []),
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_websocket_route_that_is_forgotten_is_told_of(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    application, expected = APPLICATIONS[name]
    monkeypatch.setattr(f"{__name__}.APPLICATION", application)
    settings.ASGI_APPLICATION = f"{__name__}.APPLICATION"
    assert ids(check_sockets()) == expected


APPLICATION: Any = None


def test_without_an_asgi_application_there_is_nothing_to_forget(settings: Settings) -> None:
    for named in (None, "nowhere.application"):
        settings.ASGI_APPLICATION = named
        assert check_sockets() == []
    settings.ASGI_APPLICATION = "website.asgi.application"
    assert check_sockets() == []
