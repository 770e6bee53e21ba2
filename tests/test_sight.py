"""One place decides which tasks a person sees; lists, counts, boards and desk agree with what is then done (R35)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import QuerySet
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop import boards, bulk, permissions
from agentstop.boards import Board
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.views import list_views
from tests.lists.many import in_doubt
from tests.lists.test_stop_many import MINE, confirm, state
from tests.test_views import browser, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def not_secret(user: Any, permission: str, task: Task) -> bool:
    """A host's rule that takes away, from owners too, and says nothing of lists."""
    return "secret" not in task.title and permissions.owner_or_permission(user, permission, task)


def same_team(user: Any, permission: str, task: Task) -> bool:
    """A host's rule that gives what no permission does, and says what lists are to look through."""
    return task.title.startswith(user.get_username())


def _of_team(user: Any, tasks: QuerySet[Task]) -> QuerySet[Task]:
    return tasks.filter(title__startswith=user.get_username())


same_team.visible = _of_team  # type: ignore[attr-defined]


@pytest.fixture
def olga(db: None) -> User:
    person = User.objects.create_user("olga", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="agentstop"))
    return person


def test_what_a_rule_hides_is_neither_named_nor_counted_nor_stopped(
    ann: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = ("plain 1", "secret 1", "plain 2", "secret 2", "plain 3", "secret 3", "secret 4")
    for title in titles:
        begin(title, owner=ann)
    settings.AGENTSTOP_MAY = f"{__name__}.not_secret"
    monkeypatch.setattr(list_views, "MOST", 2)
    asked = browser(ann).get(MINE)
    text = text_of(asked)
    assert "2 tasks will be stopped." in text and "1 more is left after that" in text and "secret" not in text
    assert bulk.count_before(ann, by=ann).running == 3
    confirm(browser(ann), asked)
    assert [state(title) for title in titles] == [
        "active", "active", "stopped", "active", "stopped", "active", "active"
    ]  # fmt: skip
    assert [each.task for each in bulk.stop_all(ann, by=ann).answers] == [Task.objects.get(title="plain 1").pk]


def test_a_rule_may_give_lists_what_no_permission_does(ann: User, ben: User, settings: Settings) -> None:
    for title in ("ann and others", "ben and others"):
        begin(title)
    settings.AGENTSTOP_MAY = f"{__name__}.same_team"
    listed = browser(ann).get(reverse("agentstop:tasks")).content.decode()
    assert "ann and others" in listed and "ben and others" not in listed
    found = browser(ann).get("/api/tasks").json()["tasks"]
    assert [row["title"] for row in found] == ["ann and others"]
    assert "1 task will be stopped." in text_of(browser(ann).get("/tasks/stop/"))


def test_the_desk_counts_what_its_lists_show(ann: User, olga: User, settings: Settings) -> None:
    in_doubt(ann, "olga's case")
    in_doubt(ann, "of others")
    client = browser(olga)
    lists = reverse("admin:agentstop_operation_changelist") + f"?board={Board.UNKNOWN}"

    def shown() -> tuple[int, int, int]:
        page = client.get(lists)
        tasks = client.get(reverse("admin:agentstop_task_changelist")).context["cl"].result_list
        return boards.standing(Board.UNKNOWN, olga).count, len(page.context["cl"].result_list), len(tasks)

    assert shown() == (2, 2, 2)
    settings.AGENTSTOP_MAY = f"{__name__}.same_team"
    assert shown() == (1, 1, 1)
    hidden = Task.objects.get(title="of others")
    assert client.get(reverse("admin:agentstop_task_change", args=[hidden.pk])).status_code in (302, 403, 404)
    assert boards.standing(Board.UNKNOWN).count == 2  # of the command, which asks for nobody


def test_the_desk_asks_about_no_task_that_the_rule_hides(ann: User, olga: User, settings: Settings) -> None:
    shown, hidden = begin("plain", owner=ann), begin("secret", owner=ann)
    settings.AGENTSTOP_MAY = f"{__name__}.not_secret"
    chosen = {"action": "stop_tasks", "_selected_action": [shown.task_id, hidden.task_id]}
    asked = browser(olga).post(reverse("admin:agentstop_task_changelist"), chosen).context["choice"]
    assert [task.pk for task in asked.tasks] == [shown.task_id]
    assert asked.counts[0] == "1 task will be stopped. Nothing new will be sent for it."
