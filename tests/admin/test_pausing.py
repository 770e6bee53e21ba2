"""Pause, Resume and New run at the desk: each task by itself, for those who may, with an answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop.models import Decision, Task
from agentstop.pause import pause
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.admin.conftest import Login, granted, task_of

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "admin:agentstop_task_changelist"
started: list[Run] = []


def runner(run: Run) -> None:
    started.append(run)


@pytest.fixture(autouse=True)
def runs_agents(settings: Settings) -> None:
    settings.AGENTSTOP_RUNNER = "tests.admin.test_pausing.runner"
    started.clear()


@pytest.fixture
def holder(operator: User) -> User:
    """An operator who may also pause and begin runs."""
    held = [permission.codename for permission in operator.user_permissions.all()]
    return granted(operator, *held, "pause_task", "start_run")


def act(client: Client, action: str, *tasks: int) -> Any:
    data = {"action": action, "index": "0", "_selected_action": list(tasks)}
    return client.post(reverse(LIST), data, follow=True)


def said(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


def tools(client: Client, run: Run) -> set[str]:
    found = client.get(reverse("admin:agentstop_task_change", args=[run.task_id]))
    return {tool.label for tool in found.context["tools"]}


def press(client: Client, name: str, run: Run, query: str = "") -> Any:
    return client.post(reverse(f"admin:agentstop_task_{name}", args=[run.task_id]) + query, follow=True)


def test_many_are_paused_and_resumed_and_each_counts(login: Login, holder: User, ann: User) -> None:
    one, two, over = (begin(title, owner=ann) for title in ("one", "two", "over"))
    over.finish()
    pause(two.task_id, by=ann)
    ids = [run.task_id for run in (one, two, over)]
    client = login(holder)
    assert said(act(client, "pause_tasks", *ids)) == ["1 task is paused.", "2 were paused already, or are over."]
    assert said(act(client, "resume_tasks", *ids)) == ["2 tasks were resumed.", "1 was not paused by itself."]
    assert [task_of(run).state for run in (one, two, over)] == ["active", "active", "finished"]
    assert Decision.objects.filter(verb="pause", by=holder, effect="applied").count() == 1


def test_who_may_only_stop_is_not_offered_it_and_a_forged_press_is_denied(
    login: Login, operator: User, ann: User
) -> None:
    run, client = begin("one", owner=ann), login(operator)
    assert "Pause selected tasks" not in client.get(reverse(LIST)).content.decode()
    act(client, "pause_tasks", run.task_id)
    assert not {"Pause", "Resume", "New run"} & tools(client, run)
    assert "may see task" in said(press(client, "pause", run))[0]
    assert "may see task" in said(press(client, "new_run", run, "?run=1"))[0]
    assert (task_of(run).state, task_of(run).last_run, started) == ("active", 1, [])
    denied = Decision.objects.filter(task=run.task_id, effect="denied", by=operator)
    assert list(denied.values_list("verb", flat=True)) == ["pause", "start"]


def test_the_buttons_of_a_task_are_those_that_do_something(login: Login, holder: User, ann: User) -> None:
    client, run = login(holder), begin("one", owner=ann)
    three = {"Pause", "Resume", "New run"}
    assert tools(client, run) & three == {"Pause", "New run"}
    assert said(press(client, "pause", run)) == ["1 task is paused."]
    assert tools(client, run) & three == {"Resume"}
    assert said(press(client, "resume", run)) == ["1 task was resumed."]
    stop(run.task_id, by=ann)
    assert tools(client, run) & three == {"New run"}


def test_a_child_that_is_held_with_its_parent_can_be_paused_by_itself(login: Login, holder: User, ann: User) -> None:
    parent = begin("parent", owner=ann)
    child = begin("child", serves=[parent])
    pause(parent.task_id, by=ann)
    assert tools(login(holder), child) & {"Pause", "Resume", "New run"} == {"Pause"}


def test_a_new_run_is_begun_once_and_its_agent_started(login: Login, holder: User, ann: User) -> None:
    run, client = begin("one", owner=ann), login(holder)
    stop(run.task_id, by=ann)
    assert said(press(client, "new_run", run, "?run=1")) == ["A new run has begun."]
    assert "No run was begun" in said(press(client, "new_run", run, "?run=1"))[0]
    assert (started, task_of(run).last_run) == ([Run(run.task_id, 2)], 2)
    for query in ("", "?run=x", "?run=" + "9" * 20):
        assert "names no run" in said(press(client, "new_run", run, query))[0]


def test_nothing_is_pressed_by_a_link_or_by_somebody_of_another_department(
    login: Login, holder: User, stranger: User, ann: User
) -> None:
    run = begin("one", owner=ann)
    for name in ("pause", "resume", "new_run"):
        address = reverse(f"admin:agentstop_task_{name}", args=[run.task_id])
        assert login(holder).get(address).status_code == 405
        assert login(stranger).post(address).status_code in (302, 403)
        assert Client().post(address).status_code == 302
    assert said(login(holder).post(reverse("admin:agentstop_task_pause", args=[10**9]), follow=True)) == [
        "No such task. Nothing was changed."
    ]
    assert Task.objects.get(pk=run.task_id).state == "active"
    assert set(Decision.objects.exclude(verb="start", effect="applied").values_list("by", "effect")) == {
        (stranger.pk, "denied")
    }
