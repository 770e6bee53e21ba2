"""All facts of an object in order, and the files of lists, for whoever may read them (R35, R36)."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop import database, export, tokens
from agentstop import request as requests
from agentstop.admin import base
from agentstop.exceptions import Unanswered
from agentstop.gate import open_gate
from agentstop.lifecycle import create
from agentstop.models import Attempt, Operation, Task
from agentstop.runs import Run
from agentstop.stop import stop
from tests.admin.conftest import VIEWS, Login, granted, task_of

pytestmark = pytest.mark.django_db(transaction=True)


def read(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_all_facts_stand_in_order_and_can_be_saved(login: Login, viewer: User, running: Run, ann: User) -> None:
    stop(running.task_id, by=ann, reason="=cmd()")
    client, page = login(viewer), reverse("admin:agentstop_task_facts", args=[running.task_id])
    assert page in client.get(reverse("admin:agentstop_task_change", args=[running.task_id])).text
    found = export.facts(task_of(running))
    shown = client.get(page)
    assert list(shown.context["pages"]) == found
    assert [fact["at"] for fact in found] == sorted(fact["at"] for fact in found)
    assert {fact["fact"] for fact in found} == {"decision", "attempt", "receipt", "call", "question"}
    saved = read(client.get(page, {"format": "csv"}))
    assert [fact["what"] for fact in saved] == [fact["what"] for fact in found]
    assert "'=cmd()" in [fact["text"] for fact in saved]
    told = json.loads(client.get(page, {"format": "json"}).getvalue())
    assert (told["task"], told["state"], told["facts"]) == (running.task_id, "stopped", found)


def test_of_an_operation_its_own_facts_alone(login: Login, viewer: User, running: Run) -> None:
    one = Operation.objects.get(key="notify")
    shown = login(viewer).get(reverse("admin:agentstop_operation_facts", args=[one.pk]))
    assert {fact["operation"] for fact in shown.context["pages"]} == {one.pk}
    assert [fact["fact"] for fact in shown.context["pages"]] == ["attempt", "receipt", "call"]


def test_they_are_those_of_the_task_that_are_about_it(running: Run, ann: User, tools: None) -> None:
    """Decisions and questions about it among them, and nothing about another one or of another task."""
    with pytest.raises(Unanswered):
        running.call("a", connector="tools", key="asked", send=lambda op: 1, approve="Send it?", wait=False)
    stop(running.task_id, by=ann)
    task, found = task_of(running), export.facts(task_of(running))
    for one in Operation.objects.filter(task=task).order_by("pk"):
        about = export.facts(task, operation=one.pk)
        assert about and about == [fact for fact in found if fact["operation"] == one.pk]
    assert "question" in {fact["fact"] for fact in about}
    assert export.facts(create("Another", owner=ann), operation=one.pk) == []


def test_who_may_not_read_each_kind_reads_none(login: Login, viewer: User, stranger: User, running: Run) -> None:
    page = reverse("admin:agentstop_task_facts", args=[running.task_id])
    assert login(stranger).get(page).status_code == 403
    client = login(granted(viewer, *(right for right in VIEWS if right != "view_receipt")))
    assert client.get(page).status_code == 403
    assert page not in client.get(reverse("admin:agentstop_task_change", args=[running.task_id])).text
    assert client.get(reverse("admin:agentstop_task_facts", args=[999_999])).status_code == 404


def chosen(client: Client, name: str, query: str = "") -> list[dict[str, str]]:
    sent = {"action": "export_rows", "index": "0", "select_across": "1", "_selected_action": ["0"]}
    return read(client.post(reverse(f"admin:agentstop_{name}_changelist") + query, sent))


def test_what_a_list_filters_is_saved_without_results(login: Login, viewer: User, running: Run, ann: User) -> None:
    client = login(viewer)
    [unknown] = chosen(client, "operation", "?board=unknown")
    assert (unknown["key"], unknown["state"]) == ("notify", "unknown")
    receipts = chosen(client, "receipt")
    assert len(receipts) == 2
    assert "body" not in receipts[0]


def test_what_time_alone_has_changed_is_saved_as_the_list_shows_it(
    login: Login, viewer: User, running: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of its sender is over, and no worker has stored yet what that means."""
    monkeypatch.setattr(base, "CHUNK", 2)
    for key in ("late:1", "late:2"):
        open_gate(requests.make(running.task_id, running.number, "mail.send", {}, {"connector": "tools", "key": key}))
    late = Operation.objects.filter(key__startswith="late:")
    past = database.now() - timedelta(minutes=1)
    Attempt.objects.filter(operation__in=late).update(lease_until=past, passed_at=past)
    late.update(lease_until=past, due_at=past)
    assert {row.state for row in late} == {"sending"}
    client = login(viewer)
    shown = client.get(reverse("admin:agentstop_operation_changelist")).context["cl"].result_list
    saved = chosen(client, "operation")
    assert [row["state"] for row in saved] == [row.state for row in shown] == ["unknown"] * 3 + ["succeeded"]
    assert [row["id"] for row in saved] == [str(row.pk) for row in shown]


def test_of_a_token_no_fingerprint_is_saved_and_its_scopes_are_json(login: Login, root: User, ann: User) -> None:
    tokens.make("mail agent", ann, ["read", "run"], by=root, connectors=["*"])
    [saved] = chosen(login(root), "servicetoken")
    assert "fingerprint" not in saved and saved["application"] == "mail agent"
    assert (json.loads(saved["scopes"]), json.loads(saved["connectors"])) == (["read", "run"], ["*"])


def test_the_sites_own_rule_decides_for_each_row(
    login: Login, viewer: User, running: Run, ann: User, settings: Settings
) -> None:
    settings.AGENTSTOP_MAY = f"{__name__}.not_secret"
    create("Secret", owner=ann)
    assert [row["title"] for row in chosen(login(viewer), "task")] == ["Quarterly report"]


def not_secret(user: Any, permission: str, task: Task) -> bool:
    return task.title != "Secret"
