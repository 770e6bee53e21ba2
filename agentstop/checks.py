"""System checks: what would break a promise is an error, what is easily got wrong a warning; each names its cure."""

from __future__ import annotations

import difflib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps.config import AppConfig
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.contenttypes.models import ContentType
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.module_loading import import_string

from agentstop import conf, connectors, database
from agentstop.socket_checks import check_sockets

PREFIX = "AGENTSTOP_"
DJANGO_TEMPLATES = "django.template.backends.django.DjangoTemplates"
REQUEST = "django.template.context_processors.request"
SQLITE = (3, 35)  # INSERT … RETURNING
PATIENCE = 20  # seconds: below that, writers under load are turned away
FULL = 2  # PRAGMA synchronous, from which on a commit survives a loss of power


def register_all() -> None:
    """Called once the apps are loaded."""
    register(check_settings, "agentstop")
    register(check_connectors, "agentstop")
    register(check_pages, "agentstop")
    register(check_sockets, "agentstop")
    register(check_database, "agentstop")
    register(check_server, Tags.database)


def check_settings(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """The settings of agentstop, and those of Django that it needs."""
    return [*_time_zones(), *_unknown_settings(), *_values(), *_rule(), *_runner(), *_celery()]


def check_pages(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """What the pages of agentstop, and its tags on those of the site, need."""
    return [*_addresses(), *_requests(), *_people(), *_login()]


def _addresses() -> Iterator[CheckMessage]:
    try:
        reverse("agentstop:tasks")
    except NoReverseMatch:
        yield Warning(
            "The pages of agentstop have no address: its tags cannot be used, and nobody can press Stop on a page.",
            hint='Add path("agentstop/", include("agentstop.urls")) to the URLs. A project without pages: '
            'SILENCED_SYSTEM_CHECKS = ["agentstop.W006"].',
            id="agentstop.W006",
        )


def _requests() -> Iterator[CheckMessage]:
    engines: Any = settings.TEMPLATES
    for engine in engines:
        given = engine.get("OPTIONS", {}).get("context_processors", [])
        if engine["BACKEND"] == DJANGO_TEMPLATES and REQUEST not in given:
            yield Warning(
                "Templates are not given the request: the tags of agentstop raise an error in them.",
                hint=f'Add "{REQUEST}" to OPTIONS["context_processors"] of TEMPLATES.',
                id="agentstop.W007",
            )


def _people() -> Iterator[CheckMessage]:
    if not any(_is_authentication(each) for each in settings.MIDDLEWARE):
        yield Warning(
            "No middleware says who sends a request: each page of agentstop fails.",
            hint='Add "django.contrib.auth.middleware.AuthenticationMiddleware" to MIDDLEWARE, or make yours a '
            "subclass of it.",
            id="agentstop.W008",
        )


def _is_authentication(path: str) -> bool:
    try:
        found = import_string(path)
    except ImportError:
        return False  # Django says so by itself
    return isinstance(found, type) and issubclass(found, AuthenticationMiddleware)


def _login() -> Iterator[CheckMessage]:
    try:
        address = resolve_url(settings.LOGIN_URL)
        if not urlsplit(str(address)).netloc:
            resolve(urlsplit(str(address)).path)
    except (NoReverseMatch, Resolver404):
        yield Warning(
            f"People who are not logged in are sent to LOGIN_URL = {str(settings.LOGIN_URL)!r}, and there is no page.",
            hint='Name the page at which people log in; that of the admin will do: LOGIN_URL = "/admin/login/".',
            id="agentstop.W009",
        )


def _time_zones() -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Error(
            "agentstop compares moments of several clocks, and needs times that know their zone.",
            hint="Set USE_TZ = True.",
            id="agentstop.E004",
        )


def _unknown_settings() -> Iterator[CheckMessage]:
    given = {name.removeprefix(PREFIX) for name in dir(settings) if name.startswith(PREFIX)}
    for name in sorted(given - set(conf.DEFAULTS)):
        near = difflib.get_close_matches(name, conf.DEFAULTS, n=1)
        yield Warning(
            f"There is no setting {PREFIX}{name}: it is not read.",
            hint=f"Did you mean {PREFIX}{near[0]}?" if near else f"Remove it. Known: {', '.join(conf.DEFAULTS)}.",
            id="agentstop.W003",
        )


def _values() -> Iterator[CheckMessage]:
    for name, default in conf.DEFAULTS.items():
        value, wanted = getattr(conf, name), ""
        if isinstance(default, bool):
            wanted = "" if isinstance(value, bool) else "True or False"
        elif isinstance(default, int | float):
            wanted = "" if _is_amount(value) else "a number that is not negative"
        if wanted:
            yield Error(
                f"{PREFIX}{name} is {value!r}, and must be {wanted}.",
                hint=f"Its default is {default!r}.",
                id="agentstop.E010",
            )


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _rule() -> Iterator[CheckMessage]:
    problem = _unusable(conf.MAY)
    if problem:
        yield Error(
            f"{PREFIX}MAY names {conf.MAY!r}, which cannot be used: {problem}",
            hint="Name a function (user, permission, task) -> bool by its dotted path, or remove the setting.",
            id="agentstop.E006",
        )


def _runner() -> Iterator[CheckMessage]:
    problem = _unusable(conf.RUNNER) if conf.RUNNER else ""
    if problem:
        yield Error(
            f"{PREFIX}RUNNER names {conf.RUNNER!r}, which cannot be used: {problem}",
            hint="Name a function (run) -> None by its dotted path, or remove the setting.",
            id="agentstop.E011",
        )


def _celery() -> Iterator[CheckMessage]:
    if not conf.CELERY_APP:
        return
    try:
        from agentstop.integrations.celery import follow_ups  # needs Celery

        app = import_string(conf.CELERY_APP)
        scheduled = follow_ups.is_scheduled(app)
    except Exception as error:  # a module may raise anything while it is imported
        yield Error(
            f"{PREFIX}CELERY_APP names {conf.CELERY_APP!r}, which cannot be used: {type(error).__name__}: {error}",
            hint='Name your Celery application by its dotted path, as in "mysite.celery.app", in a module that does '
            "not call django.setup(), and install agentstop[celery]. Or remove the setting, and run agentstop_worker.",
            id="agentstop.E013",
        )
        return
    if not scheduled:
        yield Warning(
            f"Beat does not send {follow_ups.NAME!r}: operations are cancelled and looked up only right after a stop.",
            hint="Set beat_schedule where the application is made, not later, or give it an entry with that task.",
            id="agentstop.W010",
        )


def _unusable(path: Any) -> str:
    """Why this names no function; empty where it does."""
    try:
        found = import_string(path)
    except Exception as error:  # a module may raise anything while it is imported
        return f"{type(error).__name__}: {error}"
    return "" if callable(found) else "it is not callable"


def check_connectors(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Each connector is made as it will be used; that opens no connection."""
    entries: Any = conf.CONNECTORS
    if not isinstance(entries, Mapping):
        return [_bad_connector("AGENTSTOP_CONNECTORS is not a dict.")]
    return [message for name, entry in entries.items() for message in _connector(name, entry)]


def _connector(name: str, entry: Any) -> Iterator[CheckMessage]:
    if not isinstance(entry, Mapping):
        yield _bad_connector(f"Connector {name!r} is not a dict.")
    elif unknown := sorted(set(entry) - {"PROVIDER", "OPTIONS"}):
        yield _bad_connector(f"Connector {name!r} has keys that are not read: {', '.join(unknown)}.")
    else:
        try:
            connectors.get(name)
        except Exception as error:  # a provider may raise anything over its options
            yield _bad_connector(f"Connector {name!r} cannot be made: {type(error).__name__}: {error}")


def _bad_connector(problem: str) -> CheckMessage:
    return Error(
        problem,
        hint='Correct AGENTSTOP_CONNECTORS = {"name": {"PROVIDER": "dotted.path", "OPTIONS": {...}}}. '
        "HttpProvider needs the extra: agentstop[http].",
        id="agentstop.E005",
    )


def check_database(app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """How Django is told to connect to the database of agentstop; nothing is asked of the database itself."""
    alias = database.alias()
    connection = connections[alias]
    vendor: dict[str, Callable[[str, BaseDatabaseWrapper], Iterator[CheckMessage]]] = {
        "sqlite": _sqlite,
        "postgresql": _postgresql,
    }
    about_it = vendor.get(connection.vendor, _unsupported)(alias, connection)
    return [*about_it, *_atomic_requests(alias, connection), *_apart(alias)]


def _apart(alias: str) -> Iterator[CheckMessage]:
    for model in (get_user_model(), ContentType):
        other = router.db_for_write(model)
        if other != alias:
            yield Error(
                f"The models of agentstop are in database {alias!r}, and refer to {model._meta.label} in {other!r}.",
                hint="Let your router send them to the same database: rows do not refer to those of another one.",
                id="agentstop.E012",
            )


def _unsupported(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    yield Error(
        f"agentstop keeps its promises on PostgreSQL and SQLite; database {alias!r} is {connection.vendor}.",
        hint="Route the models of agentstop to such a database (DATABASE_ROUTERS).",
        id="agentstop.E001",
    )


def _atomic_requests(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    if connection.settings_dict["ATOMIC_REQUESTS"]:
        yield Warning(
            f"ATOMIC_REQUESTS is set for database {alias!r}: agent code in a view would be refused by the gate.",
            hint="Mark views that begin runs, call, stop or settle @transaction.non_atomic_requests (the views of "
            'agentstop are). Once that is done: SILENCED_SYSTEM_CHECKS = ["agentstop.W001"].',
            id="agentstop.W001",
        )


def _sqlite(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    options, name = connection.settings_dict["OPTIONS"], str(connection.settings_dict["NAME"])
    cure = 'Set OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 30} for it.'
    if str(options.get("transaction_mode")).upper() != "IMMEDIATE":
        yield Error(
            f"SQLite database {alias!r} starts transactions without a lock: a stop could be missed.",
            hint=cure,
            id="agentstop.E002",
        )
    if options.get("timeout", 5) < PATIENCE:
        yield Warning(
            f"SQLite database {alias!r} turns writers away after {options.get('timeout', 5)} seconds of waiting.",
            hint=cure,
            id="agentstop.W004",
        )
    if sqlite3.sqlite_version_info < SQLITE:
        yield Error(
            f"SQLite is {sqlite3.sqlite_version}; agentstop needs {'.'.join(map(str, SQLITE))} or newer.",
            hint="Use a Python that was built with a newer SQLite, or PostgreSQL.",
            id="agentstop.E007",
        )
    in_memory = name == ":memory:" or "mode=memory" in name
    if in_memory and not name.startswith("file:memorydb_"):  # so Django names what its test runner makes
        yield Warning(
            f"SQLite database {alias!r} lives in memory: it ends with the process, and no worker can share it.",
            hint="Give it a file as NAME.",
            id="agentstop.W002",
        )


def _postgresql(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    from django.db.backends.postgresql.psycopg_any import IsolationLevel  # needs psycopg

    level = connection.settings_dict["OPTIONS"].get("isolation_level")
    if level not in (None, IsolationLevel.READ_COMMITTED):
        yield _isolation(alias, str(getattr(level, "name", level)))


def _isolation(alias: str, level: str) -> CheckMessage:
    return Error(
        f"Database {alias!r} runs at isolation level {level.lower().replace('_', ' ')!r}: the gate would read a stop "
        "from an old snapshot.",
        hint="Remove OPTIONS['isolation_level'] for it, and any default_transaction_isolation of its role "
        "(READ COMMITTED is PostgreSQL's default).",
        id="agentstop.E003",
    )


def check_server(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """What the database itself says; run by `check --database` and by `migrate`."""
    alias = database.alias()
    if alias not in (databases or ()):
        return []
    connection = connections[alias]
    asked = {"sqlite": _sqlite_file, "postgresql": _postgresql_server}.get(connection.vendor)
    return list(asked(alias, connection)) if asked is not None else []


def _sqlite_file(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    cure = 'Set OPTIONS["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" for it.'
    journal, synchronous = _ask(connection, "PRAGMA journal_mode"), _ask(connection, "PRAGMA synchronous")
    if journal not in {"wal", "memory"}:
        yield Warning(
            f"SQLite database {alias!r} has journal mode {journal!r}: readers and the gate hold each other up.",
            hint=cure,
            id="agentstop.W005",
        )
    if int(synchronous) < FULL:
        yield Error(
            f"SQLite database {alias!r} has synchronous {synchronous}: a loss of power could lose the record of "
            "something sent.",
            hint=cure,
            id="agentstop.E009",
        )


def _postgresql_server(alias: str, connection: BaseDatabaseWrapper) -> Iterator[CheckMessage]:
    level = _ask(connection, "SHOW transaction_isolation")
    if level != "read committed" and not connection.settings_dict["OPTIONS"].get("isolation_level"):
        yield _isolation(alias, str(level))
    if _ask(connection, "SHOW synchronous_commit") == "off":
        yield Error(
            f"Database {alias!r} has synchronous_commit off: a crash could lose the record of something sent.",
            hint="Set it to on: ALTER ROLE … SET synchronous_commit = on (or for the database, or in OPTIONS).",
            id="agentstop.E008",
        )


def _ask(connection: BaseDatabaseWrapper, sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]
