"""One database, four people and four connections for all episodes of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from pytest_django.fixtures import Settings

from agentstop import passes
from tests.apart import know_apart
from tests.soak.crew import Crew
from tests.soak.driver import SETTINGS, People
from tests.soak.model import Person

VIEWER = frozenset({"view_task"})
OPERATOR = VIEWER | {
    "stop_task",
    "pause_task",
    "start_run",
    "compensate_operation",
    "settle_operation",
    "freeze_dispatch",
}


@pytest.fixture
def people(transactional_db: None) -> People:
    ann, ben, vera, olga = (User.objects.create_user(name) for name in ("ann", "ben", "vera", "olga"))
    for user, rights in ((vera, VIEWER), (olga, OPERATOR)):
        wanted = Permission.objects.filter(content_type__app_label="agentstop", codename__in=rights)
        user.user_permissions.set(wanted)
    return People(Person(ann), Person(ben), Person(vera, VIEWER), Person(olga, OPERATOR))


@pytest.fixture
def crew(people: People, unsafe_but_quick: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    for name, value in SETTINGS.items():
        setattr(settings, name, value)
    monkeypatch.setattr(passes, "ticks", passes.ticks)  # episodes replace it
    know_apart(monkeypatch)
    crew = Crew()
    yield crew
    crew.close()


@pytest.fixture
def unsafe_but_quick(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This test ends no process, so SQLite need not wait for the disk."""
    if connection.vendor != "sqlite":
        return
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "init_command", "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;")
    connection.close()
