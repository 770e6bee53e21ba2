"""R45, R37: whom a freeze affects reads what is held, by whom, since when, until when and why; nobody else does."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.html import escape

from agentstop import frozen, lifecycle
from agentstop.accounts import account, presence
from agentstop.exceptions import Frozen
from agentstop.freeze import freeze, unfreeze
from agentstop.models import Freeze, Operation, Task
from agentstop.reports import report
from agentstop.reports.remedy_report import Choice, Remedy
from agentstop.reports.report import TaskReport
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.templatetags.agentstop import agentstop_clock
from agentstop.testing.sandbox.client import SandboxClient
from tests.test_undo_pages import made, undoing
from tests.test_views import browser

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "it <b>posts</b> twice"


@pytest.fixture(autouse=True)
def two_connectors(settings: Any) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "chat": {}}


def text_of(answer: Any) -> str:
    """What is read of a page, without its elements."""
    return " ".join(re.sub(r"<[^>]+>", "", answer.content.decode()).split())


def told(run: Run) -> TaskReport:
    found = account.load(run.task_id)
    assert found is not None
    return report.tell(found)


def held(run: Run) -> list[str]:
    return [each.text for each in told(run).held]


def asked(owner: User, connector: str = "chat", action: str = "post") -> Run:
    """A run that has listed one operation."""
    run = begin("Quarterly report", owner=owner)
    run.prepare(action, connector=connector, key="k")
    return run


def test_the_page_says_what_is_held_by_whom_since_when_until_when_and_why(ann: User, olga: User) -> None:
    run, until = asked(ann), timezone.now() + timedelta(hours=3)
    made = freeze(connector="chat", by=olga, reason=WHY, until=until)
    text = browser(ann).get(f"/tasks/{run.task_id}/").text
    assert "<strong>Held: dispatch to chat.</strong> By <bdi>olga</bdi> since " in text
    assert f": <q><bdi>{escape(WHY)}</bdi></q>" in text
    shown = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert made.in_force_at is not None
    assert f"By olga since {agentstop_clock(made.in_force_at)}, until {agentstop_clock(until)}" in shown
    unfreeze(made, by=olga)
    assert "Held:" not in browser(ann).get(f"/tasks/{run.task_id}/").text


def test_the_line_of_the_task_says_it_too_and_so_does_the_list(ann: User, olga: User) -> None:
    run = asked(ann)
    freeze(action="post", by=olga, reason=WHY)
    assert told(run).summary == "Running. Held: dispatch of post. 1 waiting"
    [(row, _)] = report.load_all([Task.objects.get()], ann)
    assert row.summary == told(run).summary


SCOPES: list[tuple[dict[str, str], str]] = [
    ({}, "Held: all dispatch."),
    ({"connector": "chat"}, "Held: dispatch to chat."),
    ({"action": "post"}, "Held: dispatch of post."),
    ({"connector": "chat", "action": "post"}, "Held: dispatch of post to chat."),
    ({"owner": "ann"}, "Held: all dispatch for ann."),
    ({"owner": "ann", "connector": "chat"}, "Held: dispatch to chat for ann."),
    ({"owner": "ann", "action": "post"}, "Held: dispatch of post for ann."),
    ({"owner": "ann", "connector": "chat", "action": "post"}, "Held: dispatch of post to chat for ann."),
]


@pytest.mark.parametrize(("scope", "text"), SCOPES, ids=[text for _, text in SCOPES])
def test_who_is_affected_reads_it_and_nobody_else(
    scope: dict[str, Any], text: str, ann: User, ben: User, olga: User
) -> None:
    if "owner" in scope:
        scope = {**scope, "owner": ann}
    affected, other, unasked = asked(ann), asked(ben), asked(ann, "tools", "read")
    freeze(**scope, by=olga, reason=WHY)
    assert held(affected) == [text]
    assert held(other) == ([] if "owner" in scope else [text])
    assert held(unasked) == ([] if {"connector", "action"} & set(scope) else [text])


def test_a_task_that_asks_later_reads_it_then(ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    freeze(connector="chat", by=olga, reason=WHY)
    assert held(run) == []
    with pytest.raises(Frozen):
        run.call("post", connector="chat", key="k", send=lambda op: "done")
    assert held(run) == ["Held: dispatch to chat."]
    [operation] = told(run).operations
    assert operation.reading.name == "not sent"
    assert operation.reading.evidence == "Refused before it was sent: an operator holds it."
    assert operation.reading.next_step == "It can be asked for again when nothing holds it."


def test_what_is_over_is_not_held(ann: User, olga: User) -> None:
    run = asked(ann)
    freeze(by=olga, reason=WHY)
    stop(run.task_id, by=ann)
    assert held(run) == []
    assert told(run).summary == "Stopped. Nothing new will be sent. 1 not sent"


def test_one_that_is_not_in_force_yet_says_so(ann: User, olga: User) -> None:
    run = asked(ann)
    freeze(by=olga, reason=WHY)
    Freeze.objects.update(in_force_at=None)
    text = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert "About to be held: all dispatch." in text
    assert "It is not in force everywhere yet: something may still be sent." in text


def test_a_policy_is_named_and_of_an_owner_who_is_gone_nobody_is_held(ann: User, ben: User) -> None:
    run = asked(ann)
    freeze(connector="chat", reason=WHY, policy="error rate")
    freeze(owner=ben, reason=WHY)
    ben.delete()
    assert [(each.text, each.by) for each in told(run).held] == [("Held: dispatch to chat.", "error rate")]


def test_its_end_is_a_moment_at_which_the_page_changes(ann: User, olga: User) -> None:
    run, until = asked(ann), timezone.now() + timedelta(seconds=20)
    freeze(by=olga, reason=WHY, until=until)
    assert told(run).changes_at == until


def test_many_freezes_take_no_more_queries(ann: User, olga: User, django_assert_max_num_queries: Any) -> None:
    tasks = [lifecycle.create(f"{number}", owner=ann) for number in range(20)]
    for _ in range(10):
        freeze(owner=ann, by=olga, reason=WHY)
    with django_assert_max_num_queries(13):
        found = report.load_all(tasks, ann)
    assert all(len(row.held) == 10 for row, _ in found)


def test_the_page_that_asks_before_undoing_names_the_freeze_and_a_press_there_is_told(
    sandbox: SandboxClient, ann: User, olga: User
) -> None:
    operation = made(ann)
    stop(operation.task_id, by=ann)
    frozen = freeze(connector="sandbox", by=olga, reason=WHY)
    page = text_of(browser(ann).get(f"/operations/{operation.pk}/undo/"))
    assert "Held: dispatch to sandbox. By olga since" in page
    answer = text_of(undoing(browser(ann), operation))
    assert "What would undo it is held by an operator: nothing was sent. Try again when it is lifted." in answer
    assert Operation.objects.count() == 1
    unfreeze(frozen, by=olga)
    assert "Held:" not in text_of(browser(ann).get(f"/operations/{operation.pk}/undo/"))


def test_a_freeze_whose_end_was_found_is_not_asked_about_any_more(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    held = freeze(reason=WHY, until=timezone.now() + timedelta(hours=1))
    assert presence.tasks([task.pk])[0].there.freezes
    frozen.read(timezone.now() + timedelta(hours=2))
    held.refresh_from_db()
    assert held.over_at is not None and not presence.tasks([task.pk])[0].there.freezes


def test_who_only_asks_what_undoing_would_do_ends_no_freeze(sandbox: SandboxClient, ann: User) -> None:
    operation, root = made(ann), User.objects.create_superuser("root")
    held = freeze(connector="sandbox", reason=WHY, until=timezone.now() + timedelta(hours=1))
    Freeze.objects.filter(pk=held.pk).update(until=timezone.now() - timedelta(seconds=1))
    assert "Held:" not in text_of(browser(ann).get(f"/operations/{operation.pk}/undo/"))
    [consequence] = Choice.of(root, Remedy.UNDO, Operation.objects.all()).consequences
    assert not consequence.held
    assert Freeze.objects.get(pk=held.pk).over_at is None
