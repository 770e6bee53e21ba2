"""The panel's addresses: what each answers to whom, with and without JavaScript."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agentstop import lifecycle
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.states import TaskState

HTMX = {"HX-Request": "true"}


@pytest.fixture
def client_of_ann(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


def test_the_owner_sees_the_page_with_a_stop_button(client_of_ann: Client, ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    page = client_of_ann.get(f"/tasks/{task.pk}/")
    assert page.status_code == 200
    text = page.content.decode()
    assert f'form="agentstop-task-{task.pk}-stop"' in text
    assert "hx-swap-oob" not in text


def test_stop_without_javascript_redirects_back_to_a_safe_address(client_of_ann: Client, ann: User) -> None:
    run = begin("Report", owner=ann)
    data = {"run": run.number, "reason": "enough", "next": "/somewhere/"}
    answer = client_of_ann.post(f"/tasks/{run.task_id}/stop/", data)
    assert (answer.status_code, answer["Location"]) == (302, "/somewhere/")
    task = Task.objects.get(pk=run.task_id)
    assert (task.state, task.stop_reason) == (TaskState.STOPPED, "enough")


def test_a_stop_by_htmx_answers_with_the_truth_now(client_of_ann: Client, ann: User) -> None:
    run = begin("Report", owner=ann)
    answer = client_of_ann.post(f"/tasks/{run.task_id}/stop/", {"run": run.number}, headers=HTMX)
    assert answer.status_code == 200
    assert "Stopped by" in answer.content.decode()
