"""The desk shows everything, truthfully and safely, and changes nothing."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agentstop import database
from agentstop.accounts import account
from agentstop.exceptions import Unanswered
from agentstop.inputs import add
from agentstop.models import (
    Attempt,
    Call,
    ContextEntry,
    Decision,
    Freeze,
    Operation,
    Question,
    Receipt,
    ServiceToken,
    ServingLink,
    Task,
)
from agentstop.models import Run as RunRow
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from tests.admin.conftest import Login, lose

SHOWN: list[Any] = [Task, RunRow, ServingLink, Operation, Question, Decision, Attempt, Receipt, Call, ContextEntry]
SHOWN.append(Freeze)
WITH_ROWS = [model for model in SHOWN if model not in (ServingLink, Freeze)]

pytestmark = pytest.mark.django_db(transaction=True)


def page(client: Client, model: Any, name: str = "changelist", *args: Any, **query: Any) -> str:
    response = client.get(reverse(f"admin:agentstop_{model._meta.model_name}_{name}", args=args), query)
    assert response.status_code == 200, response
    return response.content.decode()


def queries(client: Client, model: Any) -> int:
    with CaptureQueriesContext(connection) as seen:
        page(client, model)
    return len(seen)


def test_every_model_but_the_family_has_a_page() -> None:
    registered = {model for model in apps.get_app_config("agentstop").get_models() if site.is_registered(model)}
    assert registered == {*SHOWN, ServiceToken}  # that needs a right of its own: tests/api/test_tokens.py


@pytest.mark.parametrize("model", WITH_ROWS)
def test_everything_is_listed_and_opened(model: Any, login: Login, viewer: User, running: Run) -> None:
    client, row = login(viewer), model.objects.first()
    address = reverse(f"admin:agentstop_{model._meta.model_name}_change", args=[row.pk])
    assert address in page(client, model)
    assert 'type="submit"' not in re.sub(
        r'<form[^>]*id="logout-form".*?</form>', "", client.get(address).text, flags=re.S
    )


@pytest.mark.parametrize("model", SHOWN)
def test_everything_is_searched_by_any_text(model: Any, login: Login, viewer: User, running: Run) -> None:
    client = login(viewer)
    for text in ("quarterly", "7", "not-a-number", "b5b5d8a0-0000-4000-8000-000000000000", "'\"%_\\"):
        page(client, model, q=text)


def test_a_task_is_found_by_its_title_its_number_and_its_owner(login: Login, viewer: User, running: Run) -> None:
    client, other = login(viewer), begin("Other").task_id
    for text in ("quarterly rep", str(running.task_id), "ann"):
        shown = page(client, Task, q=text)
        assert f"/task/{running.task_id}/change/" in shown
        assert f"/task/{other}/change/" not in shown or str(other) in text


def test_an_operation_is_found_by_its_idempotency_key(login: Login, viewer: User, running: Run) -> None:
    first, second = Operation.objects.order_by("pk")
    shown = page(login(viewer), Operation, q=str(first.idempotency_key))
    assert f"/operation/{first.pk}/" in shown
    assert f"/operation/{second.pk}/" not in shown


@pytest.mark.parametrize(
    ("model", "query"),
    [
        (Task, {"state__exact": "active"}),
        (RunRow, {"state__exact": "live"}),
        (Operation, {"state__exact": "unknown", "connector": "tools"}),
        (Operation, {"connector": "no-such"}),
        (Decision, {"verb__exact": "start"}),
        (Receipt, {"claim__exact": "lost"}),
        (Call, {"outcome__exact": "failed"}),
    ],
)
def test_lists_are_filtered(model: Any, query: dict[str, str], login: Login, viewer: User, running: Run) -> None:
    shown = page(login(viewer), model, **query)
    assert ("/change/" in shown) is (query.get("connector") != "no-such")


DATED = [(Task, "created_at"), (RunRow, "began_at"), (Question, "asked_at"), (Decision, "at")]
DATED += [(Attempt, "passed_at"), (Receipt, "seen_at"), (Call, "at"), (ContextEntry, "at"), (Operation, "state_since")]


@pytest.mark.parametrize(("model", "field"), DATED)
def test_lists_are_narrowed_by_dates(model: Any, field: str, login: Login, viewer: User, running: Run) -> None:
    """By the links that the list itself offers: today has rows, and before today has none."""
    client, when = login(viewer), getattr(model.objects.earliest(field), field)
    offered = page(client, model)
    today = re.search(rf'href="\?({field}__gte=[^"]+)"', offered)
    assert today is not None
    kept = client.get(reverse(f"admin:agentstop_{model._meta.model_name}_changelist") + "?" + html.unescape(today[1]))
    assert kept.context["cl"].result_count == model.objects.count()
    assert "/change/" not in page(client, model, **{f"{field}__lt": when.isoformat()})


@pytest.mark.parametrize("model", WITH_ROWS)
def test_nothing_is_added_changed_or_deleted(model: Any, login: Login, root: User, running: Run) -> None:
    client, row = login(root), model.objects.first()
    before = list(model.objects.order_by("pk").values())
    name = f"admin:agentstop_{model._meta.model_name}"
    for address in (
        reverse(f"{name}_add"),
        reverse(f"{name}_change", args=[row.pk]),
        reverse(f"{name}_delete", args=[row.pk]),
    ):
        assert client.post(address, {"state": "finished", "title": "x", "post": "yes"}).status_code == 403
    client.post(reverse(f"{name}_changelist"), {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
    assert list(model.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("model", WITH_ROWS)
def test_a_list_takes_the_same_number_of_queries_for_one_row_and_for_many(
    model: Any, login: Login, viewer: User, running: Run, ann: User
) -> None:
    client = login(viewer)
    queries(client, model)  # content types are read once for a process
    few = queries(client, model)
    for number in range(12):
        run = begin(f"Task {number}", owner=ann)
        run.call("report.create", {}, connector="tools", key="a", send=lambda op: {})
        run.call("chat.post", {}, connector="tools", key="b", send=lose)
        stop(run.task_id, by=ann)
    assert queries(client, model) == few


def test_a_task_page_takes_the_same_number_of_queries_for_few_facts_and_for_many(
    login: Login, viewer: User, running: Run
) -> None:
    client = login(viewer)
    add(running.task_id, "input")
    page(client, Task, "change", running.task_id)  # content types are read once for a process
    with CaptureQueriesContext(connection) as few:
        page(client, Task, "change", running.task_id)
    for number in range(12):
        running.call("chat.post", {}, connector="tools", key=f"n{number}", send=lose)
        add(running.task_id, f"input {number}")
    running.take_input()
    with CaptureQueriesContext(connection) as many:
        page(client, Task, "change", running.task_id)
    assert len(many) == len(few)


def test_a_task_page_shows_its_runs_operations_and_decisions_in_order(
    login: Login, viewer: User, running: Run, ann: User
) -> None:
    stop(running.task_id, by=ann, reason="the quarter is wrong")
    shown = page(login(viewer), Task, "change", running.task_id)
    places = [
        shown.index(text) for text in ("Run 1 of", "report.create (report)", "chat.post (notify)", "start applied")
    ]
    assert places == sorted(places)
    assert shown.index("start applied") < shown.index("stop applied")
    assert "the quarter is wrong" in shown


def test_an_operation_page_shows_its_attempts_receipts_decisions_and_calls(
    login: Login, viewer: User, running: Run, ann: User
) -> None:
    stop(running.task_id, by=ann)
    lost = Operation.objects.get(key="notify")
    shown = page(login(viewer), Operation, "change", lost.pk)
    for text in ("submit 1 of", "lost by sender", "cancel applied", "failed in run 1", "unknown outcome", "gone"):
        assert text in shown, text


def test_the_newest_rows_are_shown_where_there_are_too_many(
    login: Login, viewer: User, running: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentstop.admin.inlines.ON_PAGE", 1)
    shown = page(login(viewer), Task, "change", running.task_id)
    assert "chat.post (notify)" in shown
    assert "report.create (report)" not in shown


@pytest.mark.parametrize("name", ["changelist", "change"])
def test_a_state_that_time_has_changed_is_shown_as_it_is_now(
    name: str, login: Login, viewer: User, running: Run
) -> None:
    operation = _overslept(running)
    shown = page(login(viewer), Operation, name, *([operation.pk] if name == "change" else []))
    assert "unknown outcome" in shown
    assert Operation.objects.get(pk=operation.pk).state == OperationState.SENDING, "reading changes nothing"


def _overslept(run: Run) -> Operation:
    """An operation whose sender died, long enough ago for its lease to be over; nobody has looked since."""
    Receipt.objects.all().delete()
    operation = Operation.objects.get(key="notify")
    past = database.now() - timedelta(minutes=2)
    Attempt.objects.filter(operation=operation).update(lease_until=past, passed_at=past - timedelta(minutes=1))
    Operation.objects.exclude(pk=operation.pk).update(follow_up_at=None)
    Operation.objects.filter(pk=operation.pk).update(state="sending", due_at=past, lease_until=past, follow_up_at=past)
    return operation


def test_every_page_says_when_no_worker_runs(login: Login, viewer: User, running: Run) -> None:
    client = login(viewer)
    Operation.objects.update(follow_up_at=None)
    assert "agentstop_worker" not in page(client, Task)
    _overslept(running)
    assert "1 operation waits for more than a minute" in page(client, Task)
    assert "agentstop_worker" in page(client, Task, "change", running.task_id)


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"{{ 7|add:7 }}"


def test_text_of_users_and_providers_is_never_markup(login: Login, operator: User, tools: None, ann: User) -> None:
    run = begin(EVIL, owner=ann)
    run.call(f"a{EVIL}", {"text": EVIL}, connector="tools", key=f"k{EVIL}", send=lambda op: EVIL)
    run.call("b", {}, connector="tools", key="b", send=lose)
    with pytest.raises(Unanswered):
        run.ask(EVIL, key=EVIL, choices=[EVIL], details={EVIL: EVIL}, wait=False)
    client = login(operator)
    answers = [
        client.get(reverse("admin:agentstop_task_stop"), {"task": run.task_id}),
        client.post(reverse("admin:agentstop_task_stop"), {"tasks": f"{run.task_id}:1", "reason": EVIL}),
        *(client.get(reverse(f"admin:agentstop_{m._meta.model_name}_changelist")) for m in SHOWN),
        *(
            client.get(reverse(f"admin:agentstop_{m._meta.model_name}_change", args=[m.objects.last().pk]))
            for m in WITH_ROWS
        ),
        client.get(reverse("admin:agentstop_operation_change", args=[Operation.objects.first().pk])),  # type: ignore[union-attr]
        client.get(reverse("admin:agentstop_receipt_change", args=[Receipt.objects.first().pk])),  # type: ignore[union-attr]
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "<img src=x" not in answer.text


def test_no_page_holds_script_or_style_of_its_own(login: Login, operator: User, running: Run) -> None:
    """So that a strict Content-Security-Policy lets all of it work."""
    client = login(operator)
    shown = [page(client, model) for model in SHOWN]
    shown += [page(client, model, "change", model.objects.last().pk) for model in WITH_ROWS]
    stopping = reverse("admin:agentstop_task_stop")
    shown.append(client.get(stopping, {"task": running.task_id}).text)
    shown.append(client.post(stopping, {"tasks": f"{running.task_id}:1"}).text)
    for text in shown:
        assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
        assert [tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag] == []


def test_what_people_typed_is_read_on_the_task_page_and_not_changed_there(
    login: Login, viewer: User, running: Run, ann: User
) -> None:
    add(running.task_id, "also in <b>French</b>", by=ann)
    taken, text = running.take_input(), "x" * 50_000
    assert taken is not None and running.input_done(taken)
    add(running.task_id, text, by=ann)
    stop(running.task_id, by=ann)
    client = login(viewer)
    shown = page(client, Task, "change", running.task_id)
    assert "sent. Run 1 had it, and says that it is done with it." in shown
    assert "held, never sent. An agent gets it only if somebody releases it." in shown
    assert "also in &lt;b&gt;French&lt;/b&gt;" in shown
    assert "x" * 2_000 not in shown
    assert not re.search(r'<(textarea|select|input type="(?!hidden|submit))[^>]*name="inputs-', shown)
    viewer.user_permissions.remove(*viewer.user_permissions.filter(codename="view_input"))
    assert "held, never sent" not in page(login(User.objects.get(pk=viewer.pk)), Task, "change", running.task_id)


def test_a_long_result_is_shown_by_its_beginning(login: Login, viewer: User, tools: None, ann: User) -> None:
    run = begin("Long", owner=ann)
    run.call("read", {}, connector="tools", key="long", send=lambda op: "x" * 50_000 + "the end")
    client = login(viewer)
    for model in (Receipt, ContextEntry):  # both keep the result
        row = model.objects.get()
        with CaptureQueriesContext(connection) as seen:
            shown = page(client, model, "change", row.pk)
        assert "x" * 20_000 in shown
        assert "x" * 20_001 not in shown
        assert "The first 20000 of 50007 characters" in shown
        whole = re.compile(r'(?<!\()"agentstop_(receipt|contextentry)"\."body"')  # not within SUBSTRING( or LENGTH(
        assert [query["sql"] for query in seen if whole.search(query["sql"])] == []
    operation = Operation.objects.get(key="long")
    assert "x" * 400 not in page(client, Operation, "change", operation.pk)


def test_an_operations_page_says_what_its_owner_reads(login: Login, viewer: User, running: Run, ann: User) -> None:
    """Evidence, how far cancelling got, limits and what can be done: the same sentences in both places."""
    stop(running.task_id, by=ann)
    found = account.load(running.task_id)
    assert found is not None
    for told in report.tell(found).operations:
        shown = html.unescape(page(login(viewer), Operation, "change", told.id))
        reading = told.reading
        said = [text for text in (reading.evidence, reading.cancellation, reading.limit, reading.next_step) if text]
        assert len(said) >= 2
        assert [text for text in said if text not in shown] == []
