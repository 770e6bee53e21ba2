"""Undoing and settling on the pages: who may, what is named before, what is told after, and what is refused calmly.

R23, R24.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.test import Client
from pytest_django.fixtures import Settings

from agentstop import database, sending, settle
from agentstop.compensate import compensate
from agentstop.models import Decision, Operation, Receipt
from agentstop.runs import begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import TAKE_DOWN
from agentstop.views import addresses
from tests.conftest import HANG_GUARD
from tests.test_views import SCRIPTED, browser, text_of

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY_YET: list[Any] = []


def made(owner: User, action: str = "file.upload", **switches: object) -> Operation:
    """Something that really exists at the provider."""
    run = begin("Q3 report", owner=owner)
    args = {"text": "report", "label": f"task {run.task_id}", "sandbox": switches}
    assert run.call(action, args, connector="sandbox", key="q3").accepted
    return Operation.objects.get()


def in_doubt(owner: User, connector: str = "tools") -> Operation:
    """An operation whose outcome nobody knows."""

    def lost(_: object) -> None:
        raise OSError("reset by peer")

    begin("Q3 report", owner=owner).call("mail.send", connector=connector, key="k", send=lost)
    return Operation.objects.get()


def page(client: Client, operation: Operation) -> str:
    return text_of(client.get(f"/tasks/{operation.task_id}/"))


def undoing(client: Client, operation: Operation, **data: str) -> Any:
    return client.post(f"/operations/{operation.pk}/undo/", data, follow=True)


def settling(client: Client, operation: Operation, outcome: str = "failed", reason: str = "I asked them") -> Any:
    data = {"outcome": outcome, "reason": reason}
    return client.post(f"/operations/{operation.pk}/settle/", data, follow=True)


def opens(what: str, operation: Operation) -> str:
    """The button that leads to the page that asks first."""
    return f'formaction="/operations/{operation.pk}/{what}/"'


def may(user: User, *codenames: str) -> User:
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    return User.objects.get(pk=user.pk)


def test_the_page_names_the_consequences_in_the_providers_words_before_anything_is_sent(
    sandbox: SandboxClient, ann: User
) -> None:
    operation = made(ann, "notify.post")
    text = text_of(browser(ann).get(f"/operations/{operation.pk}/undo/"))
    assert TAKE_DOWN.consequences in text
    assert "It takes back only a part: something of it stays." in text
    assert "undone is not the same as never done" in text
    assert "<bdi>notify.undo</bdi> at <bdi>sandbox</bdi>" in text
    assert "csrfmiddlewaretoken" in text
    assert not Operation.objects.filter(compensates=operation).exists()


def test_a_provider_that_names_no_consequences_is_said_to(
    sandbox: SandboxClient, ann: User, settings: Settings
) -> None:
    operation = made(ann)
    actions = settings.AGENTSTOP_CONNECTORS["sandbox"]["OPTIONS"]["actions"]
    upload = actions["file.upload"]
    way = replace(upload.capability.compensation, consequences="")
    silent = {**actions, "file.upload": replace(upload, capability=replace(upload.capability, compensation=way))}
    options = {**settings.AGENTSTOP_CONNECTORS["sandbox"]["OPTIONS"], "actions": silent}
    settings.AGENTSTOP_CONNECTORS = {"sandbox": {**settings.AGENTSTOP_CONNECTORS["sandbox"], "OPTIONS": options}}
    text = text_of(browser(ann).get(f"/operations/{operation.pk}/undo/"))
    assert "This provider does not say what the consequences are." in text
    assert "By what this provider says, it takes back all of it." in text


def test_a_confirmed_undoing_is_sent_after_a_stop_and_told_on_the_page(sandbox: SandboxClient, ann: User) -> None:
    operation = made(ann)
    stop(operation.task_id, by=ann)
    client = browser(ann)
    assert opens("undo", operation) in page(client, operation)
    answer = undoing(client, operation, reason="wrong file")
    assert answer.redirect_chain == [(f"/tasks/{operation.task_id}/", 302)]
    assert "Undoing it has begun; what it comes to is shown beside it." in text_of(answer)
    sending.close()  # waits for what is being sent
    decision = Decision.objects.get(verb="compensate")
    assert (decision.by, decision.reason) == (ann, "wrong file")
    text = page(client, operation)
    assert "<strong>It was undone.</strong>" in text
    assert "completed before cancellation" in text
    assert opens("undo", operation) not in text
    undo = Operation.objects.get(compensates=operation)
    assert f'It undoes <a href="#agentstop-operation-{operation.pk}">' in text
    assert f'<a href="#agentstop-operation-{undo.pk}"' in text
    assert sandbox.standing(task=f"task {operation.task_id}") == 0


def test_while_it_is_being_undone_the_page_says_so_and_a_second_press_is_refused_calmly(
    sandbox: SandboxClient, ann: User
) -> None:
    operation, client = made(ann), browser(ann)
    sandbox.hold("accepted", "undo: report")
    first = compensate(operation.pk, by=ann)
    sandbox.wait("accepted", "undo: report")
    text = page(client, operation)
    assert "<strong>It is being undone.</strong>" in text
    assert opens("undo", operation) not in text
    answers = [undoing(client, operation), client.get(f"/operations/{operation.pk}/undo/", follow=True)]
    assert ["It was undone already, or is being undone: nothing more was sent." in text_of(a) for a in answers] == [
        True,
        True,
    ]
    sandbox.release("accepted", "undo: report")
    first.future.result(HANG_GUARD)
    assert Operation.objects.filter(compensates=operation).count() == 1


def test_a_failed_undoing_is_visible_with_what_the_provider_said_and_can_be_tried_again(
    sandbox: SandboxClient, ann: User
) -> None:
    operation, client = made(ann), browser(ann)
    Receipt.objects.filter(operation=operation, claim="succeeded").update(ref="/uploads/999")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operation, "idempotency_key", "00000000-0000-0000-0000-000000000000", raising=False)
        assert compensate(operation.pk, by=ann).future.result(HANG_GUARD).state == "failed"
    text = page(client, operation)
    assert re.search(r'data-tone="bad"><strong>Undoing it failed.</strong> It said: <q><bdi>.+</bdi></q>', text)
    assert opens("undo", operation) in text


def test_what_is_not_known_to_exist_offers_no_undoing_and_refuses_it_calmly(tools: None, ann: User) -> None:
    operation, client = in_doubt(ann), browser(ann)
    assert opens("undo", operation) not in page(client, operation)
    for answer in (undoing(client, operation), client.get(f"/operations/{operation.pk}/undo/", follow=True)):
        assert answer.status_code == 200
        assert "It cannot be undone: it is not known to have been done" in text_of(answer)
    assert Operation.objects.count() == 1


def test_the_page_asks_what_became_of_it_and_the_answer_is_told_with_name_and_reason(tools: None, ann: User) -> None:
    operation, client = in_doubt(ann), browser(ann)
    assert opens("settle", operation) in page(client, operation)
    asked = text_of(client.get(f"/operations/{operation.pk}/settle/"))
    assert re.findall(r'type="radio" name="outcome" value="(\w+)"', asked) == ["succeeded", "failed", "cancelled"]
    assert "Your word decides until the provider itself says something else" in asked
    text = text_of(settling(client, operation, reason="<b>not</b> in their list\x00"))
    assert "It was settled; who did so and why is shown beside it." in text
    assert "Settled by <bdi>ann</bdi> as failed at <time" in text
    assert "<q><bdi>&lt;b&gt;not&lt;/b&gt; in their list" in text
    assert "\x00" not in text
    assert opens("settle", operation) not in text
    assert Operation.objects.get().state == "failed"


@pytest.mark.parametrize(
    ("outcome", "reason", "wrong"),
    [
        ("", "I looked", "Choose what became of it."),
        ("unknown", "I looked", "Choose what became of it."),
        ("not_found", "I looked", "Choose what became of it."),
        ("failed", " \n", "Say on what evidence it is settled"),
    ],
)
def test_what_is_missing_is_said_in_the_form_which_keeps_the_rest(
    tools: None, ann: User, outcome: str, reason: str, wrong: str
) -> None:
    operation = in_doubt(ann)
    answer = settling(browser(ann), operation, outcome, reason)
    text = text_of(answer)
    assert answer.status_code == 422
    assert wrong in text
    assert ("I looked</textarea>" in text) == (reason == "I looked")
    assert ('value="failed" required checked' in text) == (outcome == "failed")
    assert not Receipt.objects.filter(source="person").exists()


def test_what_the_provider_has_said_since_stands_beside_what_a_person_said(tools: None, ann: User) -> None:
    operation, client = in_doubt(ann), browser(ann)
    settling(client, operation, "failed")
    assert "since that" not in page(client, operation)
    settle.record(operation.pk, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
    text = page(client, operation)
    assert "Settled by <bdi>ann</bdi> as failed" in text
    assert "<strong>The provider has said since that it was done.</strong>" in text
    assert Operation.objects.get().state == "succeeded"


def test_a_later_word_that_agrees_is_not_told_as_another(tools: None, ann: User) -> None:
    operation, client = in_doubt(ann), browser(ann)
    settling(client, operation, "succeeded")
    settle.record(operation.pk, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
    text = page(client, operation)
    assert "Settled by <bdi>ann</bdi> as completed" in text
    assert "since that" not in text


def test_what_evidence_has_settled_is_refused_calmly(tools: None, ann: User) -> None:
    operation, client = in_doubt(ann), browser(ann)
    settle.record(operation.pk, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
    for answer in (settling(client, operation), client.get(f"/operations/{operation.pk}/settle/", follow=True)):
        assert "It is settled by evidence, or on its way: nothing was changed." in text_of(answer)
    assert not Receipt.objects.filter(source="person").exists()


def test_a_provider_that_can_be_asked_is_to_be_asked_first(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Q3 report", owner=ann)
    with run.dispatch("report.create", {"title": "Q3"}, connector="sandbox", key="k") as op:
        op.accepted(ref="/reports/1")
    text = text_of(browser(ann).get(f"/operations/{Operation.objects.get().pk}/settle/"))
    assert "Its provider can be asked what became of it: do that first." in text


def test_a_provider_can_still_be_asked_about_what_a_person_has_settled(sandbox: SandboxClient, ann: User) -> None:
    operation, client = made(ann), browser(ann)
    Receipt.objects.all().delete()  # as if its answer had been lost
    settle.fresh([operation])
    Operation.objects.update(state="unknown", lease_until=None)
    operation.tries.update(lease_until=F("passed_at"))
    settling(client, operation, "failed")
    assert "Settled by <bdi>ann</bdi> as failed" in page(client, operation)
    answer = client.post(f"/tasks/{operation.task_id}/look-up/", {"operation": operation.pk}, headers=SCRIPTED)
    assert "<strong>The provider has said since that it was done.</strong>" in text_of(answer)
    button = r'<button (.*?) id="agentstop-operation-\d+-look-up">'
    assert "aria-disabled" in re.findall(button, text_of(answer))[0]


PLACES = [(method, place) for method in ("get", "post") for place in ("undo", "settle")]
VERBS = {"undo": "compensate", "settle": "settle"}
FORM = {"outcome": "failed", "reason": "x"}


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_a_stranger_finds_nothing(tools: None, ann: User, ben: User, method: str, place: str) -> None:
    operation = in_doubt(ann)
    answer = getattr(browser(ben), method)(f"/operations/{operation.pk}/{place}/", FORM)
    assert answer.status_code == 404
    assert "Q3" not in text_of(answer)
    assert Operation.objects.get().state == "unknown"


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_a_viewer_is_told_that_they_may_not_and_an_attempt_is_kept(
    sandbox: SandboxClient, ann: User, ben: User, method: str, place: str
) -> None:
    operation = made(ann) if place == "undo" else in_doubt(ann)
    client = browser(may(ben, "view_task"))
    assert opens(place, operation) not in page(client, operation)
    answer = getattr(client, method)(f"/operations/{operation.pk}/{place}/", FORM)
    assert (answer.status_code, "Not allowed" in text_of(answer)) == (403, True)
    denied = Decision.objects.filter(verb=VERBS[place], effect="denied", by=ben, task=operation.task)
    assert list(denied.values_list("reason", flat=True)) == (["x"] if method == "post" else NOBODY_YET)
    assert Operation.objects.count() == 1
    assert not Receipt.objects.filter(source="person").exists()


@pytest.mark.parametrize(("place", "right"), [("undo", "compensate_operation"), ("settle", "settle_operation")])
def test_each_has_a_right_of_its_own(sandbox: SandboxClient, ann: User, olga: User, place: str, right: str) -> None:
    operation = made(ann) if place == "undo" else in_doubt(ann)
    client = browser(may(olga, right))
    other = "settle" if place == "undo" else "undo"
    assert opens(place, operation) in page(client, operation)
    assert client.get(f"/operations/{operation.pk}/{place}/").status_code == 200
    assert client.get(f"/operations/{operation.pk}/{other}/").status_code == 403


@pytest.mark.parametrize(("method", "place"), PLACES)
@pytest.mark.parametrize("operation", [0, 999_999, 10**30])
def test_an_unknown_operation_is_not_found(ann: User, method: str, place: str, operation: int) -> None:
    assert getattr(browser(ann), method)(f"/operations/{operation}/{place}/", FORM).status_code == 404


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_somebody_who_is_not_logged_in_is_asked_to_and_comes_back(
    tools: None, ann: User, method: str, place: str
) -> None:
    operation = in_doubt(ann)
    answer = getattr(Client(), method)(f"/operations/{operation.pk}/{place}/")
    assert answer["Location"] == f"/accounts/login/?next=/operations/{operation.pk}/{place}/"


@pytest.mark.parametrize("place", ["undo", "settle"])
def test_a_form_without_its_token_is_turned_down(tools: None, ann: User, place: str) -> None:
    operation = in_doubt(ann)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ann)
    assert strict.post(f"/operations/{operation.pk}/{place}/", FORM).status_code == 403
    assert Operation.objects.get().state == "unknown"


@pytest.mark.parametrize(
    ("wanted", "back"),
    [("/reports/7/?page=2", "/reports/7/?page=2"), ("https://evil.example/", None), ("//evil", None)],
)
def test_it_leads_back_to_the_page_that_holds_the_panel_and_nowhere_else(
    tools: None, ann: User, wanted: str, back: str | None
) -> None:
    operation, client = in_doubt(ann), browser(ann)
    here = f"/operations/{operation.pk}/settle/"
    expected = back or f"/tasks/{operation.task_id}/"
    assert f'<a href="{expected}">' in text_of(client.get(here, {"next": wanted}))
    assert client.post(here, {**FORM, "next": wanted})["Location"] == expected


@pytest.mark.parametrize("place", ["undo", "settle"])
def test_nothing_in_these_pages_is_inline(sandbox: SandboxClient, ann: User, place: str) -> None:
    operation = made(ann) if place == "undo" else in_doubt(ann)
    text = text_of(browser(ann).get(f"/operations/{operation.pk}/{place}/"))
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", text)


def test_the_addresses_leave_out_the_transaction_of_the_database_that_holds_the_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "alias", lambda: "facts")

    def view(request: HttpRequest, task: int) -> HttpResponse:
        raise NotImplementedError

    decorated = addresses.address("GET")(view)
    assert decorated._non_atomic_requests == {"facts"}  # type: ignore[attr-defined]
