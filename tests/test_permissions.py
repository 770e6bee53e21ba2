"""Who may do what to a task, asked for each object; a stranger learns nothing (R35)."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import AnonymousUser, Permission, User
from pytest_django.fixtures import Settings

from agentstop import permissions
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Decision, Task
from agentstop.models.facts import Decided
from agentstop.runs import begin
from tests.observed import task_of

pytestmark = pytest.mark.django_db(transaction=True)

VERBS = (
    "view_task",
    "stop_task",
    "pause_task",
    "start_run",
    "compensate_operation",
    "settle_operation",
    "answer_question",
)


class OfOneTask(BaseBackend):
    """Gives everybody the right to stop the one task that is called `shared`."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return perm in {"agentstop.view_task", "agentstop.stop_task"} and getattr(obj, "title", "") == "shared"


def nobody(user: Any, permission: str, task: Task) -> bool:
    return False


@pytest.fixture
def task(ann: User) -> Task:
    return task_of(begin("a task", owner=ann))


@pytest.mark.parametrize("verb", VERBS)
def test_the_owner_may_everything_and_a_stranger_nothing(task: Task, ann: User, ben: User, verb: str) -> None:
    assert permissions.may(ann, verb, task)
    assert not permissions.may(ben, verb, task)
    assert not permissions.may(AnonymousUser(), verb, task)


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_owns_a_task_without_an_owner(ben: User, verb: str) -> None:
    task = task_of(begin("nobody's"))
    assert not permissions.may(ben, verb, task)
    assert not permissions.may(AnonymousUser(), verb, task)


def test_an_owner_whose_account_is_closed_may_nothing(task: Task, ann: User) -> None:
    ann.is_active = False
    assert not permissions.may(ann, "stop_task", task)
    assert list(permissions.visible(ann)) == []


def test_a_right_to_one_verb_is_no_right_to_another(task: Task, ben: User) -> None:
    ben.user_permissions.add(Permission.objects.get(codename="stop_task"))
    ben = User.objects.get(pk=ben.pk)
    assert permissions.may(ben, "stop_task", task)
    assert not permissions.may(ben, "view_task", task)


def test_a_backend_may_give_rights_to_single_tasks(task: Task, ben: User, settings: Settings) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.OfOneTask"]
    shared = task_of(begin("shared"))
    assert permissions.may(ben, "stop_task", shared)
    assert not permissions.may(ben, "stop_task", task)


def test_the_rule_is_a_setting(task: Task, ann: User, settings: Settings) -> None:
    settings.AGENTSTOP_MAY = f"{__name__}.nobody"
    assert not permissions.may(ann, "view_task", task)


def test_lists_show_ones_own_tasks_or_all(task: Task, ann: User, ben: User, olga: User) -> None:
    of_ben = task_of(begin("another", owner=ben))
    assert set(permissions.visible(ann)) == {task}
    assert set(permissions.visible(ben)) == {of_ben}
    assert set(permissions.visible(olga)) == {task, of_ben}
    assert list(permissions.visible(AnonymousUser())) == []


def test_a_strangers_task_and_no_task_are_told_in_the_same_words(task: Task, ann: User, ben: User) -> None:
    assert permissions.get_visible(ann, task.pk) == task
    with pytest.raises(TaskNotFound) as foreign:
        permissions.get_visible(ben, task.pk)
    with pytest.raises(TaskNotFound) as unknown:
        permissions.get_visible(ben, 10**9)
    assert str(foreign.value).replace(str(task.pk), "N") == str(unknown.value).replace(str(10**9), "N")


def test_what_is_denied_is_on_record_with_whoever_asked(task: Task, ben: User, olga: User) -> None:
    """R36."""
    permissions.require(olga, "stop_task", task, Decided.STOP)
    assert not Decision.objects.filter(effect="denied").exists()
    with pytest.raises(TaskNotFound):
        permissions.require(ben, "stop_task", task, Decided.STOP, reason="mine")
    with pytest.raises(Denied):
        permissions.require(olga, "compensate_operation", task, Decided.COMPENSATE)
    with pytest.raises(TaskNotFound):
        permissions.require(AnonymousUser(), "view_task", task, Decided.LOOK_UP)
    denied = Decision.objects.filter(task=task, effect="denied").order_by("pk")
    assert list(denied.values_list("verb", "by", "reason")) == [
        ("stop", ben.pk, "mine"),
        ("compensate", olga.pk, ""),
        ("look_up", None, ""),
    ]
