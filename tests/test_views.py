"""The panel's addresses: what each answers to whom, with and without JavaScript."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from agentstop import lifecycle
from agentstop.models import Decision, Operation, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.runs import begin
from agentstop.states import TaskState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.urls import urlpatterns

SCRIPTED = {"Agentstop-Request": "panel"}
NASTY = "<script>alert(1)</script> \u202etxt.exe \U0001f680"


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def press(client: Client, task: int, run: object, *, scripted: bool = False, **data: str) -> Any:
    return client.post(f"/tasks/{task}/stop/", {"run": str(run), **data}, headers=SCRIPTED if scripted else {})


def test_the_owner_sees_the_page_with_a_stop_button_in_a_form(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    text = text_of(browser(ann).get(f"/tasks/{task.pk}/"))
    assert f'<form id="agentstop-task-{task.pk}-stop" method="post" action="/tasks/{task.pk}/stop/"' in text
    assert f'form="agentstop-task-{task.pk}-stop" name="run" value="0"' in text


def test_a_page_and_an_answer_hold_nothing_that_only_the_socket_may_carry(ann: User) -> None:
    run = begin("Report", owner=ann)
    client = browser(ann)
    answers: list[Any] = [client.get(f"/tasks/{run.task_id}/"), client.get(f"/tasks/{run.task_id}/panel/")]
    answers.append(press(client, run.task_id, 1, scripted=True))
    assert [("data-agentstop-swap" in text_of(answer), answer.status_code) for answer in answers] == [(False, 200)] * 3


def test_nothing_in_a_page_is_inline(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    text = text_of(browser(ann).get(f"/tasks/{task.pk}/"))
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", text)


def test_the_token_is_outside_of_what_is_swapped(ann: User) -> None:
    run = begin("Report", owner=ann)
    client = browser(ann)
    assert "csrfmiddlewaretoken" in text_of(client.get(f"/tasks/{run.task_id}/"))
    assert "csrfmiddlewaretoken" not in text_of(client.get(f"/tasks/{run.task_id}/panel/"))


def test_the_regions_that_announce_are_there_from_the_start_and_the_alert_is_empty(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    text = text_of(browser(ann).get(f"/tasks/{task.pk}/"))
    assert f'id="agentstop-task-{task.pk}-line" class="agentstop-line" role="status"' in text
    assert f'role="alert" id="agentstop-task-{task.pk}-alert"></p>' in text


def test_without_javascript_the_page_says_that_it_is_not_live(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    assert "Not live: this shows what was true at" in text_of(browser(ann).get(f"/tasks/{task.pk}/"))


def test_a_stop_without_javascript_goes_back_to_where_it_came_from(ann: User) -> None:
    run = begin("Report", owner=ann)
    answer = press(browser(ann), run.task_id, run.number, reason="enough", next="/somewhere/?page=2")
    assert (answer.status_code, answer["Location"]) == (302, "/somewhere/?page=2")
    task = Task.objects.get(pk=run.task_id)
    assert (task.state, task.stop_reason, task.stopped_by) == (TaskState.STOPPED, "enough", ann)


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "\\\\evil", ""]
)
def test_nobody_is_sent_elsewhere_after_a_press(ann: User, elsewhere: str) -> None:
    run = begin("Report", owner=ann)
    assert press(browser(ann), run.task_id, run.number, next=elsewhere)["Location"] == f"/tasks/{run.task_id}/"


def test_a_stop_by_the_script_answers_with_the_truth_now(ann: User) -> None:
    run = begin("Report", owner=ann)
    answer = press(browser(ann), run.task_id, run.number, scripted=True)
    assert answer.status_code == 200
    assert "Stopped by" in text_of(answer)
    assert 'type="submit"' not in text_of(answer)


def test_a_second_stop_says_who_was_first(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    press(browser(olga), run.task_id, run.number)
    text = text_of(press(browser(ann), run.task_id, run.number, scripted=True))
    assert "It was stopped already, by olga at" in text
    assert Task.objects.get(pk=run.task_id).stopped_by == olga


def test_a_stop_on_a_finished_task_says_so(ann: User) -> None:
    run = begin("Report", owner=ann)
    run.finish()
    text = text_of(press(browser(ann), run.task_id, run.number, scripted=True))
    assert "It had finished already: there was nothing left to stop." in text
    assert Task.objects.get(pk=run.task_id).state == TaskState.FINISHED


def test_the_stop_of_a_stale_page_stops_nothing_newer_and_says_so(ann: User) -> None:
    old = begin("Report", owner=ann)
    begin(Task.objects.get(pk=old.task_id))
    client = browser(ann)
    text = text_of(press(client, old.task_id, old.number, scripted=True))
    assert "A newer run has begun since this page was drawn: nothing was stopped." in text
    assert Task.objects.get(pk=old.task_id).state == TaskState.ACTIVE
    page = client.post(f"/tasks/{old.task_id}/stop/", {"run": old.number}, follow=True)
    assert "A newer run has begun" in text_of(page)


def test_an_operator_who_stops_is_named_to_the_owner(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    press(browser(olga), run.task_id, run.number, reason="costs too much")
    text = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert "<bdi>olga</bdi>" in text
    assert "costs too much" in text


@pytest.mark.parametrize("run", ["", "one", "-1", "1.5", "१", "9" * 10, "9" * 30, "\x00"])
def test_a_press_that_names_no_run_is_turned_down(ann: User, run: str) -> None:
    found = begin("Report", owner=ann)
    assert press(browser(ann), found.task_id, run).status_code == 400
    assert Task.objects.get(pk=found.task_id).state == TaskState.ACTIVE


@pytest.mark.parametrize("scripted", [True, False])
def test_a_press_that_names_a_run_that_never_was_finds_nothing(ann: User, scripted: bool) -> None:
    found = begin("Report", owner=ann)
    assert press(browser(ann), found.task_id, 99, scripted=scripted).status_code == 404
    many = text_of(browser(ann).post("/tasks/stop/", {"tasks": f"{found.task_id}:99"}))
    assert f"There is no run 99 of task {found.task_id}. Nothing was stopped." in many
    assert Task.objects.get(pk=found.task_id).state == TaskState.ACTIVE
    assert not Decision.objects.filter(task=found.task_id, verb="stop").exists()


def test_a_stop_by_get_is_not_allowed(ann: User) -> None:
    run = begin("Report", owner=ann)
    assert browser(ann).get(f"/tasks/{run.task_id}/stop/").status_code == 405
    assert Task.objects.get(pk=run.task_id).state == TaskState.ACTIVE


def test_a_form_without_its_token_is_turned_down(ann: User) -> None:
    run = begin("Report", owner=ann)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ann)
    assert press(strict, run.task_id, run.number).status_code == 403
    assert Task.objects.get(pk=run.task_id).state == TaskState.ACTIVE


PLACES = [("get", ""), ("get", "panel/"), ("post", "stop/"), ("post", "look-up/")]


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_another_user_finds_nothing_at_any_address(ann: User, ben: User, tools: None, method: str, place: str) -> None:
    run = begin("Secret", owner=ann)
    operation = run.prepare("file.upload", connector="tools", key="k")
    answer = getattr(browser(ben), method)(f"/tasks/{run.task_id}/{place}", {"run": 1, "operation": operation})
    assert answer.status_code == 404
    assert "Secret" not in text_of(answer)
    assert Task.objects.get(pk=run.task_id).state == TaskState.ACTIVE


@pytest.mark.parametrize(("method", "place"), PLACES)
@pytest.mark.parametrize("task", [0, 999_999, 10**30])
def test_an_unknown_task_is_not_found(ann: User, method: str, place: str, task: int) -> None:
    answer = getattr(browser(ann), method)(f"/tasks/{task}/{place}", {"run": 1, "operation": 1})
    assert answer.status_code == 404


@pytest.mark.parametrize(("method", "place"), PLACES)
def test_somebody_who_is_not_logged_in_is_asked_to(ann: User, method: str, place: str) -> None:
    run = begin("Report", owner=ann)
    answer = getattr(Client(), method)(f"/tasks/{run.task_id}/{place}", {"run": 1})
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/login/?next=/tasks/")
    by_the_script = getattr(Client(), method)(f"/tasks/{run.task_id}/{place}", {"run": 1}, headers=SCRIPTED)
    assert by_the_script.status_code == 401
    assert by_the_script["Agentstop-Location"].startswith("/accounts/login/?next=/tasks/")
    assert Task.objects.get(pk=run.task_id).state == TaskState.ACTIVE


def test_a_viewer_without_the_right_is_told_so_and_the_attempt_is_kept(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    olga.user_permissions.remove(*olga.user_permissions.filter(codename__in=["stop_task", "pause_task"]))
    client = browser(olga)
    page = text_of(client.get(f"/tasks/{run.task_id}/"))
    assert "You may watch this task, and not stop it." in page
    assert 'type="submit"' not in page
    answer = press(client, run.task_id, run.number)
    assert (answer.status_code, "Not allowed" in text_of(answer)) == (403, True)
    assert Decision.objects.filter(verb=Decided.STOP, effect=Effect.DENIED, by=olga).count() == 1
    assert Task.objects.get(pk=run.task_id).state == TaskState.ACTIVE


def test_what_others_wrote_is_shown_and_does_nothing(ann: User, tools: None) -> None:
    run = begin(NASTY, owner=ann)
    with run.dispatch("file.upload", {"path": NASTY + "\x00"}, connector="tools", key=NASTY) as op:
        op.failed(NASTY + "\x00")
    stop(run.task_id, by=ann, reason=NASTY + "\x00")
    text = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert "<script>alert" not in text
    assert "\x00" not in text
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt; \u202etxt.exe \U0001f680"
    assert text.count(f"<bdi>{escaped}") == 4  # title, key, answer and reason: none turns what follows it around


def test_a_reason_is_cut_and_a_long_one_does_no_harm(ann: User) -> None:
    run = begin("Report", owner=ann)
    press(browser(ann), run.task_id, run.number, reason="x" * 100_000)
    assert len(Task.objects.get(pk=run.task_id).stop_reason) == 1000


def test_times_are_exact_and_in_the_readers_zone(ann: User) -> None:
    run = begin("Report", owner=ann)
    with timezone.override("Asia/Tokyo"):
        stop(run.task_id, by=ann)
        stopped_at = Task.objects.get(pk=run.task_id).stopped_at
        assert stopped_at is not None
        request = HttpRequest()
        request.user, request.path = ann, "/"
        context = Context({"request": request, "task": run.task_id})
        text = Template("{% load agentstop %}{% agentstop_panel task live=False %}").render(context)
        here = f"{timezone.localtime(stopped_at):%H:%M:%S}"
    assert f'<time datetime="{stopped_at.isoformat()}"' in text
    assert f">{here}</time>" in text
    assert "JST" in text


@pytest.mark.parametrize("tag", ["panel about", "stop_button about", "list subject=about"])
def test_by_an_object_of_the_hosts_a_tag_shows_its_newest_task_to_those_who_may(tag: str, ann: User, ben: User) -> None:
    """R44."""
    room, other = Group.objects.create(name="room"), Group.objects.create(name="other")
    old, new = (lifecycle.create(title, owner=ann, subject=room) for title in ("Old", "New"))
    lifecycle.create("Elsewhere", owner=ann, subject=other)
    shown = {}
    for user in (ann, ben):
        request = HttpRequest()
        request.user, request.path = user, "/here/"
        found = Template(f"{{% load agentstop %}}{{% agentstop_{tag} live=False %}}")
        shown[user] = found.render(Context({"request": request, "about": room}))
    assert f"/tasks/{new.pk}/" in shown[ann] and "Elsewhere" not in shown[ann]
    assert (f"/tasks/{old.pk}/" in shown[ann]) is ("list" in tag)
    assert not {"Old", "New"} & set(re.findall(r"\w+", shown[ben])) and f"/tasks/{new.pk}/" not in shown[ben]


def test_the_tag_shows_nothing_to_a_stranger_and_no_socket_where_none_is_wanted(ann: User, ben: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    shown = {}
    for user in (ann, ben):
        request = HttpRequest()
        request.user = user
        template = Template("{% load agentstop %}{% agentstop_panel task live=False %}")
        shown[user] = template.render(Context({"request": request, "task": task}))
    assert shown[ben] == ""
    assert "Report" in shown[ann]
    assert "data-agentstop-socket" not in shown[ann]


def test_every_address_runs_outside_of_a_transaction() -> None:
    assert all(pattern.callback._non_atomic_requests == {"default"} for pattern in urlpatterns)  # type: ignore[attr-defined]


def test_a_person_can_have_the_provider_asked(ann: User, sandbox: SandboxClient) -> None:
    """R21."""
    run = begin("Report", owner=ann)
    with run.dispatch("report.create", {"title": "Q3"}, connector="sandbox", key="k") as op:
        op.accepted(ref="/reports/1")
    operation = Operation.objects.get()
    client = browser(ann)
    assert f'name="operation" value="{operation.pk}"' in text_of(client.get(f"/tasks/{run.task_id}/"))
    address = f"/tasks/{run.task_id}/look-up/"
    answer = client.post(address, {"operation": operation.pk}, headers=SCRIPTED)
    assert "The provider was asked just now" in text_of(answer)
    assert Operation.objects.get().receipts.filter(source="read_back").exists()
    assert client.post(address, {"operation": operation.pk})["Location"] == f"/tasks/{run.task_id}/"


def test_a_provider_that_cannot_be_asked_is_said_to(ann: User, tools: None) -> None:
    run = begin("Report", owner=ann)
    operation = run.prepare("file.upload", connector="tools", key="k")
    answer = browser(ann).post(f"/tasks/{run.task_id}/look-up/", {"operation": operation}, headers=SCRIPTED)
    assert "The provider cannot be asked about this operation." in text_of(answer)


@pytest.mark.parametrize("operation", ["", "x", "0", "999999", "9" * 30, "-1"])
def test_an_unknown_operation_is_not_found(ann: User, operation: str) -> None:
    task = lifecycle.create("Report", owner=ann)
    assert browser(ann).post(f"/tasks/{task.pk}/look-up/", {"operation": operation}).status_code == 404


def test_an_operation_of_another_task_is_not_found(ann: User, ben: User, tools: None) -> None:
    mine, other = lifecycle.create("Mine", owner=ann), begin("Other", owner=ben)
    operation = other.prepare("file.upload", connector="tools", key="k")
    assert browser(ann).post(f"/tasks/{mine.pk}/look-up/", {"operation": operation}).status_code == 404
    assert not Decision.objects.filter(verb=Decided.LOOK_UP).exists()


def test_a_run_that_failed_is_told_as_the_agents_error(ann: User) -> None:
    run = begin("Report", owner=ann)
    run.fail("out of tokens")
    assert Run.objects.get().error == "out of tokens"
    assert "The agent ended with an error." in text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
