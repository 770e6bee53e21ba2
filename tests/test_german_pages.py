"""R38: on a host's pages and at its desk, whoever's browser asks for German reads German, in the host's active zone."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.utils import timezone, translation

from agentstop.models import Family, FreezeClock, Look, Operation, Task, Unseen
from agentstop.runs import begin
from agentstop.stop import stop
from agentstop.words.column_words import NAMES
from tests.test_views import SCRIPTED, browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}


@pytest.fixture
def task(ann: User) -> Task:
    """Stopped; one operation in doubt."""
    run = begin("Bericht", owner=ann)
    run.call("mail.send", connector="tools", key="k", send=lambda _: 1 / 0)
    stop(run.task_id, by=ann, reason="genug")
    return Task.objects.get()


def read(client: Client, address: str, **headers: str) -> str:
    answer: Any = client.get(address, headers={**GERMAN, **headers})
    assert answer.status_code == 200, address
    return str(answer.content.decode())


def test_pages_are_german_for_who_asks_for_it_and_english_for_others(ann: User, task: Task) -> None:
    client, operation = browser(ann), Operation.objects.get()
    page = read(client, f"/tasks/{task.pk}/")
    assert '<html lang="de" dir="ltr">' in page
    for words in (
        "Gestoppt. Es wird nichts Neues mehr gesendet. 1 mit unbekanntem Ausgang",
        "Gestoppt von <bdi>ann</bdi>, ",
    ):
        assert words in page
    assert "Ausgang unbekannt" in read(client, f"/operations/{operation.pk}/")
    assert "Zeitverlauf" in read(client, f"/tasks/{task.pk}/timeline/")
    english: Any = client.get(f"/tasks/{task.pk}/", headers={"Accept-Language": "en"})
    assert "Stopped. Nothing new will be sent. 1 unknown outcome" in english.content.decode()


def test_a_press_is_answered_in_the_language_of_who_pressed(ann: User, task: Task) -> None:
    answer: Any = browser(ann).post(f"/tasks/{task.pk}/stop/", {"run": "1"}, headers={**GERMAN, **SCRIPTED})
    assert "Sie war schon gestoppt, von ann, " in answer.content.decode()


def test_a_right_to_left_language_turns_the_page_around(ann: User, task: Task) -> None:
    assert '<html lang="ar" dir="rtl">' in read(browser(ann), f"/tasks/{task.pk}/", **{"Accept-Language": "ar"})


def test_a_hosts_own_page_keeps_to_its_language_and_zone(ann: User, task: Task) -> None:
    request = RequestFactory().get("/")
    request.user = ann
    template = Template("{% load agentstop %}{% agentstop_panel task live=False %}")
    with translation.override("de"), timezone.override(ZoneInfo("Asia/Kolkata")):
        page = template.render(Context({"request": request, "task": task}))
    at = task.stopped_at
    assert at is not None and f">{at.astimezone(ZoneInfo('Asia/Kolkata')):%H:%M:%S}</time>" in page
    assert "IST" in page and "Gestoppt von" in page


def test_the_desk_is_german_too(task: Task, admin_user: Any) -> None:
    client = browser(admin_user)
    assert "Ausgewählte Aufgaben stoppen" in read(client, "/admin/agentstop/task/")
    assert "Ausgang unbekannt" in read(client, f"/admin/agentstop/task/{task.pk}/change/")


def test_kinds_of_rows_and_their_columns_are_german_at_the_desk(task: Task, admin_user: Any) -> None:
    models = list(apps.get_app_config("agentstop").get_models())
    shown = {str(name) for model in models for name in (model._meta.verbose_name, model._meta.verbose_name_plural)}
    shown |= {str(field.verbose_name) for model in models for field in model._meta.local_fields} - {"ID"}
    hidden = [model._meta for model in (Family, FreezeClock, Look, Unseen)]
    shown -= {str(name) for meta in hidden for name in (meta.verbose_name, meta.verbose_name_plural)}
    assert shown <= NAMES, "add it to words/column_words.py"
    desk = read(browser(admin_user), "/admin/agentstop/task/")
    assert "Zustand seit" in desk and "State since" not in desk and "Vorgänge" in desk
    with translation.override("en"):
        assert Task._meta.verbose_name_plural == "tasks"
