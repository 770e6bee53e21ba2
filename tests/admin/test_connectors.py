"""The operators' list of connectors: what each can and cannot do, in sentences, and no secret (R18, R35)."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop.providers.base import Cancel, Capability, LookUp
from agentstop.providers.http import HttpAction
from tests.admin.conftest import Login

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "admin:agentstop_connectors"
RECORD = Capability(look_up=LookUp.BY_KEY, authoritative=True, cancel=Cancel.NEVER)
MAIL = HttpAction("/mails", look_up_path="/mails/{key}", capability=RECORD)
OPTIONS = {"base_url": "http://127.0.0.1:9", "headers": {"Authorization": "Bearer secret"}, "actions": {"send": MAIL}}


@pytest.fixture(autouse=True)
def connectors(settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = {
        "mail": {"PROVIDER": "agentstop.providers.http.HttpProvider", "OPTIONS": OPTIONS},
        "broken": {"PROVIDER": "agentstop.providers.http.HttpProvider", "OPTIONS": OPTIONS | {"base_url": "secret"}},
        "tools": {},
    }


def test_each_says_what_it_can_and_cannot_do_and_no_secret(login: Login, viewer: User) -> None:
    shown = login(viewer).get(reverse(PAGE)).content.decode()
    mail, tools = shown.partition("<bdi>mail</bdi>")[2].split("<bdi>tools</bdi>")
    assert "<bdi>send</bdi>" in mail
    assert "It cannot cancel: once sent, it goes on even if the task is stopped." in mail
    assert "When it finds nothing, nothing was done." in mail
    assert "Every action" in tools and "This provider cannot be asked what became of it." in tools
    assert "It cannot be used: ImproperlyConfigured" in shown
    assert "secret" not in shown


def test_in_german_no_sentence_is_left(login: Login, viewer: User) -> None:
    shown = login(viewer).get(reverse(PAGE), headers={"accept-language": "de"}).content.decode()
    assert "Jede Aktion" in shown
    assert "It cannot" not in shown and "What each" not in shown


def test_who_may_not_read_operations_is_refused(login: Login, stranger: User, ann: User, viewer: User) -> None:
    assert login(stranger).get(reverse(PAGE)).status_code == 403
    assert login(ann).get(reverse(PAGE)).status_code == 302
    assert reverse(PAGE) in login(viewer).get(reverse("admin:agentstop_desk")).content.decode()
