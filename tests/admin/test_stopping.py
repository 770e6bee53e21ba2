"""Stop at the desk: it asks first, stops each task by itself, and tells what each answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connections
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop.lifecycle import create
from agentstop.models import Decision, Operation, Task
from agentstop.runs import Run, begin
from agentstop.states import TaskState
from agentstop.stop import StopReport, stop
from tests.admin.conftest import Login, task_of

LIST = "admin:agentstop_task_changelist"
STOP = "admin:agentstop_task_stop"

pytestmark = pytest.mark.django_db(transaction=True)


def select(client: Client, *tasks: Task | int, everything: bool = False) -> Any:
    """What the list sends when its action is chosen."""
    ids = [task if isinstance(task, int) else task.pk for task in tasks]
    across = {"select_across": "1"} if everything else {}
    return client.post(reverse(LIST), {"action": "stop_tasks", "index": "0", "_selected_action": ids, **across})


def confirm(client: Client, asked: Any, reason: str = "") -> Any:
    """What the confirmation page sends."""
    return client.post(reverse(STOP), {"tasks": asked.context["choice"].value, "reason": reason})


def kinds(answered: Any) -> list[str]:
    return [answer.kind for answer in answered.context["answers"]]


@pytest.fixture
def four(running: Run, ann: User) -> list[Task]:
    """Active, queued, stopped and finished."""
    stopped, finished = begin("Stopped", owner=ann), begin("Finished", owner=ann)
    stop(stopped.task_id, by=ann)
    finished.finish()
    return [task_of(running), create("Queued", owner=ann), task_of(stopped), task_of(finished)]


def test_the_action_asks_first_and_counts(login: Login, operator: User, four: list[Task]) -> None:
    before = Decision.objects.count()
    asked = select(login(operator), *four)
    assert asked.status_code == 200
    for line in (
        "2 tasks will be stopped.",
        "1 task is stopped already.",
        "1 task has finished already.",
        "1 operation is open",
        "Quarterly report",
    ):
        assert line in asked.text
    assert Decision.objects.count() == before
    assert task_of_state(four) == ["active", "active", "stopped", "finished"]


def task_of_state(tasks: list[Task]) -> list[str]:
    states = Task.objects.in_bulk([task.pk for task in tasks])
    return [states[task.pk].state for task in tasks]


def test_what_was_confirmed_is_stopped_with_name_and_reason(login: Login, operator: User, four: list[Task]) -> None:
    client = login(operator)
    answered = confirm(client, select(client, *four), "wrong quarter")
    assert sorted(kinds(answered)) == ["info", "info", "success", "success"]
    assert "2 tasks stopped" in answered.text
    assert "1 operation has left and may still have its effect." in answered.text
    assert task_of_state(four) == ["stopped", "stopped", "stopped", "finished"]
    task = Task.objects.get(pk=four[0].pk)
    assert (task.stopped_by, task.stop_reason) == (operator, "wrong quarter")
    assert Operation.objects.get(key="notify").cancellation == "unsupported"


def test_every_task_of_the_list_is_chosen_by_select_all(login: Login, operator: User, ann: User) -> None:
    for number in range(120):
        create(f"Task {number}", owner=ann)
    client = login(operator)
    asked = select(client, Task.objects.all()[0], everything=True)
    assert "120 tasks will be stopped." in asked.text
    assert "… and 20 more." in asked.text
    assert kinds(confirm(client, asked)) == ["success"] * 120


def test_what_the_filter_leaves_out_is_not_stopped(login: Login, operator: User, ann: User, ben: User) -> None:
    hers, his = [create(f"Task {number}", owner=ann) for number in range(3)], create("Task", owner=ben)
    client = login(operator)
    sent = {"action": "stop_tasks", "index": "0", "_selected_action": [hers[0].pk], "select_across": "1"}
    asked = client.post(f"{reverse(LIST)}?q=ann&state__exact=active", sent)
    assert "3 tasks will be stopped." in asked.text
    assert kinds(confirm(client, asked)) == ["success"] * 3
    assert task_of_state([*hers, his]) == ["stopped"] * 3 + ["active"]


def test_one_failure_hides_no_answer(
    login: Login, operator: User, four: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = four[0].pk

    def breaking(task: int, **options: Any) -> StopReport:
        if task == failing:
            raise OperationalError("the server closed the connection")
        return stop(task, **options)

    client = login(operator)
    asked = select(client, *four)
    monkeypatch.setattr("agentstop.reports.bulk_report.stop", breaking)
    answered = confirm(client, asked)
    assert sorted(kinds(answered)) == ["error", "info", "info", "success"]
    assert "Not stopped: OperationalError." in answered.text
    assert task_of_state(four) == ["active", "stopped", "stopped", "finished"]


def test_a_run_that_began_after_the_question_is_not_stopped(
    login: Login, operator: User, running: Run, ann: User
) -> None:
    client, task = login(operator), task_of(running)
    asked = select(client, task)
    stop(task, by=ann)
    begin(task, by=ann)
    answered = confirm(client, asked)
    assert kinds(answered) == ["error"]
    assert "a newer run has begun since you looked" in answered.text
    assert task_of(running).state == TaskState.ACTIVE


def test_a_queued_task_that_starts_meanwhile_is_stopped(login: Login, operator: User, ann: User) -> None:
    client, task = login(operator), create("Queued", owner=ann)
    asked = select(client, task)
    begin(task)
    assert kinds(confirm(client, asked)) == ["success"]


def test_a_second_press_of_the_same_page_is_noted_and_changes_nothing(
    login: Login, operator: User, running: Run
) -> None:
    client = login(operator)
    asked = select(client, task_of(running))
    assert kinds(confirm(client, asked, "first")) == ["success"]
    stopped_at = task_of(running).stopped_at
    assert kinds(confirm(client, asked, "second")) == ["info"]
    assert (task_of(running).stopped_at, task_of(running).stop_reason) == (stopped_at, "first")


def test_a_task_page_leads_to_the_question(login: Login, operator: User, running: Run) -> None:
    client = login(operator)
    shown = client.get(reverse("admin:agentstop_task_change", args=[running.task_id])).text
    address = f"{reverse(STOP)}?task={running.task_id}"
    assert address in shown
    assert "1 task will be stopped." in client.get(address).text
    assert task_of(running).state == TaskState.ACTIVE


@pytest.mark.parametrize("sent", ["", "x", "1:1;2:2", "1:1 2", "9" * 30 + ":1", "-1:1", "1:1 " * 3 + "--"])
def test_a_press_that_names_no_task_stops_nothing_and_says_so(
    sent: str, login: Login, operator: User, running: Run
) -> None:
    answer = login(operator).post(reverse(STOP), {"tasks": sent}, follow=True)
    assert answer.status_code == 200
    assert "No such task." in answer.text
    assert task_of(running).state == TaskState.ACTIVE


@pytest.mark.parametrize("asked", ["", "x", "999999999", "9" * 40])
def test_a_question_about_no_task_leads_back_to_the_list(asked: str, login: Login, operator: User) -> None:
    answer = login(operator).get(reverse(STOP), {"task": asked}, follow=True)
    assert answer.redirect_chain == [(reverse(LIST), 302)]
    assert "No such task." in answer.text


def test_a_reason_that_is_too_long_is_asked_for_again(login: Login, operator: User, running: Run) -> None:
    client = login(operator)
    sent = {"tasks": f"{running.task_id}:1", "reason": "x" * 2001}
    again = client.post(reverse(STOP), sent)
    assert "at most 2000 characters" in again.text
    assert f'value="{running.task_id}:1"' in again.text
    assert task_of(running).state == TaskState.ACTIVE


def test_a_press_without_a_token_is_refused(operator: User, running: Run) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(operator)
    assert client.post(reverse(STOP), {"tasks": f"{running.task_id}:1"}).status_code == 403
    assert task_of(running).state == TaskState.ACTIVE


def test_a_site_with_atomic_requests_stops_all_the_same(login: Login, operator: User, running: Run) -> None:
    connections["default"].settings_dict["ATOMIC_REQUESTS"] = True
    try:
        client = login(operator)
        answered = confirm(client, select(client, task_of(running)))
    finally:
        connections["default"].settings_dict["ATOMIC_REQUESTS"] = False
    assert kinds(answered) == ["success"]
    assert task_of(running).state == TaskState.STOPPED


People = dict[str, User]


@pytest.fixture
def people(viewer: User, operator: User, stranger: User, root: User, ann: User) -> People:
    return {"viewer": viewer, "operator": operator, "stranger": stranger, "root": root, "ann": ann}


@pytest.mark.parametrize(
    ("who", "sees", "may_stop"),
    [
        ("viewer", 200, False),
        ("operator", 200, True),
        ("stranger", 403, False),
        ("root", 200, True),
        ("ann", 302, False),  # the owner is no staff: her place is the task's page, and the desk asks for another login
    ],
)
def test_who_sees_and_who_stops(
    who: str, sees: int, may_stop: bool, login: Login, people: People, running: Run
) -> None:
    client, task = login(people[who]), task_of(running)
    assert client.get(reverse(LIST)).status_code == sees
    shown = client.get(reverse("admin:agentstop_task_change", args=[task.pk]))
    assert shown.status_code == sees
    assert (reverse(STOP) in shown.text) is may_stop
    assert ('"stop_tasks"' in client.get(reverse(LIST)).text) is may_stop
    client.post(reverse(STOP), {"tasks": f"{task.pk}:1"})
    assert (task_of(running).state == TaskState.STOPPED) is may_stop


def test_a_viewers_forged_press_is_denied_and_recorded(login: Login, viewer: User, running: Run) -> None:
    answered = login(viewer).post(reverse(STOP), {"tasks": f"{running.task_id}:1", "reason": "mine"})
    assert kinds(answered) == ["error"]
    denied = Decision.objects.get(effect="denied")
    assert (denied.verb, denied.by, denied.reason) == ("stop", viewer, "mine")
    assert task_of(running).state == TaskState.ACTIVE


def only_even(user: Any, permission: str, task: Task) -> bool:
    return permission != "agentstop.stop_task" or task.pk % 2 == 0


def test_the_sites_own_rule_decides_for_each_task(login: Login, operator: User, ann: User, settings: Settings) -> None:
    settings.AGENTSTOP_MAY = f"{__name__}.only_even"
    tasks = [create(f"Task {number}", owner=ann) for number in range(4)]
    client = login(operator)
    asked = select(client, *tasks)
    assert "2 tasks will be stopped." in asked.text
    assert "2 tasks you may not stop" in asked.text
    assert sorted(kinds(confirm(client, asked))) == ["error", "error", "success", "success"]
    assert [state == "stopped" for state in task_of_state(tasks)] == [task.pk % 2 == 0 for task in tasks]


def hidden(user: Any, permission: str, task: Task) -> bool:
    return task.title != "Secret"


def test_a_task_that_the_rule_hides_is_answered_without_its_title(
    login: Login, operator: User, ann: User, settings: Settings
) -> None:
    settings.AGENTSTOP_MAY = f"{__name__}.hidden"
    secret, client = create("Secret", owner=ann), login(operator)
    assert client.get(reverse("admin:agentstop_task_change", args=[secret.pk])).status_code == 403
    answered = client.post(reverse(STOP), {"tasks": f"{secret.pk}:0"})
    assert kinds(answered) == ["error"]
    assert "Secret" not in answered.text


Check = Callable[[Operation], str]


@pytest.fixture
def check() -> Check:
    return lambda operation: reverse("admin:agentstop_operation_check", args=[operation.pk])


def test_check_now_asks_the_provider(login: Login, viewer: User, sandbox: Any, ann: User, check: Check) -> None:
    run = begin("Report", owner=ann)
    run.call("file.upload", {"name": "a"}, connector="sandbox", key="up")
    operation, client = Operation.objects.get(), login(viewer)
    assert check(operation) in client.get(reverse("admin:agentstop_operation_change", args=[operation.pk])).text
    before = operation.receipts.count()
    answer = client.post(check(operation), follow=True)
    assert "The provider was asked." in answer.text
    assert operation.receipts.filter(source="read_back").count() == 1
    assert operation.receipts.count() == before + 1
    assert Decision.objects.get(verb="look_up").by == viewer


def test_check_now_is_not_offered_where_nobody_can_be_asked(
    login: Login, viewer: User, stranger: User, running: Run, check: Check
) -> None:
    operation, client = Operation.objects.get(key="notify"), login(viewer)
    assert check(operation) not in client.get(reverse("admin:agentstop_operation_change", args=[operation.pk])).text
    assert "cannot be asked" in client.post(check(operation), follow=True).text
    assert client.get(check(operation)).status_code == 405
    assert login(stranger).post(check(operation)).status_code == 404
    assert client.post(reverse("admin:agentstop_operation_check", args=[999_999])).status_code == 404
