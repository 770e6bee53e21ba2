"""A desk with something on it: tasks of ann in every state, and people with different rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from agentstop.dispatched import Dispatched
from agentstop.exceptions import Unanswered
from agentstop.models import Task
from agentstop.runs import Run, begin

Login = Callable[[User], Client]


def granted(user: User, *codenames: str) -> User:
    """The user with exactly these permissions of agentstop, freshly loaded."""
    wanted = Permission.objects.filter(content_type__app_label="agentstop", codename__in=codenames)
    assert wanted.count() == len(codenames)
    user.user_permissions.set(wanted)
    return User.objects.get(pk=user.pk)


MODELS = ["task", "run", "operation", "question", "decision", "attempt", "receipt", "call", "contextentry"]
VIEWS = [f"view_{model}" for model in (*MODELS, "servinglink", "input", "freeze")]


@pytest.fixture
def viewer(transactional_db: None) -> User:
    """Staff who may read everything, and decide nothing."""
    return granted(User.objects.create_user("vera", is_staff=True), *VIEWS)


@pytest.fixture
def operator(transactional_db: None) -> User:
    """Staff who may read everything and stop tasks of others."""
    return granted(User.objects.create_user("otto", is_staff=True), *VIEWS, "stop_task")


@pytest.fixture
def stranger(transactional_db: None) -> User:
    """Staff of another department."""
    return User.objects.create_user("stan", is_staff=True)


@pytest.fixture
def root(transactional_db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def login() -> Login:
    def login(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return login


def lose(op: Dispatched) -> Any:
    """A tool whose answer is lost: the operation stays open, with an unknown outcome."""
    raise ConnectionResetError("gone")


@pytest.fixture
def running(tools: None, ann: User) -> Run:
    """A live run that has done one thing, and lost the answer to another."""
    run = begin("Quarterly report", owner=ann)
    run.call("report.create", {"quarter": 3}, connector="tools", key="report", send=lambda op: {"id": "r-1"})
    run.call("chat.post", {"text": "done"}, connector="tools", key="notify", send=lose)
    with pytest.raises(Unanswered):
        run.ask("Quarterly figures for everybody?", key="everybody", kind="approve", wait=False)
    return run


def task_of(run: Run) -> Task:
    return Task.objects.get(pk=run.task_id)
