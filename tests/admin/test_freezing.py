"""R45 at the desk: freezing asks first and counts, lifting asks too, and both are for those who may."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agentstop.freeze import freeze, in_force, unfreeze
from agentstop.lifecycle import create
from agentstop.models import Freeze
from agentstop.runs import Run
from tests.admin.conftest import VIEWS, Login, granted

ADD = "admin:agentstop_freeze_add"
LIST = "admin:agentstop_freeze_changelist"
CHANGE = "admin:agentstop_freeze_change"
LIFT = "admin:agentstop_freeze_lift"
WHY = "it <b>posts</b> twice"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def freezer(transactional_db: None) -> User:
    """Staff who may read everything, and hold dispatch."""
    return granted(User.objects.create_user("fay", is_staff=True), *VIEWS, "freeze_dispatch")


def ask(client: Client, **wanted: str) -> Any:
    return client.post(reverse(ADD), {"reason": WHY, **wanted})


def confirm(client: Client, **wanted: str) -> Any:
    return client.post(reverse(ADD), {"reason": WHY, **wanted, "confirmed": "1"}, follow=True)


def test_it_asks_first_and_counts_what_that_would_hold(login: Login, freezer: User, running: Run, ann: User) -> None:
    create("has asked for nothing", owner=ann)
    asked = ask(login(freezer), connector="tools")
    assert "This would hold dispatch to tools." in asked.text
    assert (
        "1 task that runs or waits is affected now. Those that begin or ask for it later are held as well."
        in asked.text
    )
    assert "1 operation of them has left, and goes on." in asked.text
    assert "it &lt;b&gt;posts&lt;/b&gt; twice" in asked.text
    assert not Freeze.objects.exists()
    everything = ask(login(freezer))
    assert "This would hold all dispatch." in everything.text
    assert "2 tasks that run or wait are affected now." in everything.text


def test_what_was_confirmed_is_held_with_name_and_end(login: Login, freezer: User, running: Run, ann: User) -> None:
    until = timezone.now() + timedelta(hours=2)
    wanted = {"connector": "tools", "action": "chat.post", "owner": "ann"}
    wanted["until"] = timezone.localtime(until).strftime("%Y-%m-%dT%H:%M:%S")
    asked = ask(login(freezer), **wanted)
    for name, value in wanted.items():
        assert f'type="hidden" name="{name}" value="{value}"' in asked.text
    answer = confirm(login(freezer), **wanted)
    assert "Held: dispatch of chat.post to tools for ann." in answer.text
    [made] = in_force()
    assert (made.connector, made.action, made.owner, made.by, made.reason) == ("tools", "chat.post", ann, freezer, WHY)
    assert made.until == until.replace(microsecond=0)
    assert made.in_force_at is not None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"connector": "chta"}, "chta is not one of the available choices"),
        ({"owner": "nobody"}, "There is no user of that name."),
        ({"reason": " "}, "This field is required."),
        ({"until": "2001-01-01T00:00"}, "That is over already."),
        ({"until": "soon"}, "Enter a valid date/time."),
        ({"action": "x" * 300}, "at most 255 characters"),
        ({"action": "a\x00"}, "Null characters are not allowed."),
    ],
)
def test_what_makes_no_sense_is_asked_again(
    wanted: dict[str, str], words: str, login: Login, freezer: User, running: Run
) -> None:
    for send in (ask, confirm):
        assert words in send(login(freezer), **wanted).text
    assert not Freeze.objects.exists()


def test_who_may_not_is_refused_and_the_press_is_kept(login: Login, operator: User, running: Run) -> None:
    held = freeze(connector="tools", reason=WHY)
    client = login(operator)
    assert client.get(reverse(ADD)).status_code == 403
    assert confirm(client, connector="tools").status_code == 403
    viewer = login(granted(operator, *VIEWS))
    assert "/freeze/add/" not in viewer.get(reverse(LIST)).text
    assert "/lift/" not in viewer.get(reverse(CHANGE, args=[held.pk])).text
    assert viewer.get(reverse(LIFT, args=[held.pk])).status_code == 403
    assert viewer.post(reverse(LIFT, args=[held.pk]), {"reason": "let go"}).status_code == 403
    denied = Freeze.objects.filter(effect="denied").order_by("pk")
    assert list(denied.values_list("by__username", "connector", "reason", "lifts")) == [
        ("otto", "tools", WHY, None),
        ("otto", "", "let go", held.pk),
    ]
    assert [one.pk for one in in_force()] == [held.pk]
    assert "denied" in viewer.get(reverse(LIST)).text


def test_it_is_lifted_after_a_question_with_a_reason(login: Login, freezer: User, running: Run) -> None:
    held = freeze(connector="tools", reason=WHY)
    client = login(freezer)
    address = reverse(LIFT, args=[held.pk])
    assert address in client.get(reverse(CHANGE, args=[held.pk])).text
    assert "It holds <strong>dispatch to tools</strong>." in client.get(address).text
    assert in_force()
    answer = client.post(address, {"reason": "repaired"}, follow=True)
    assert "It was lifted" in answer.text
    assert address not in answer.text
    assert in_force() == []
    assert "It was over before" in client.post(address, follow=True).text
    lifts = Freeze.objects.filter(lifts=held).order_by("pk").values_list("effect", "by", "reason")
    assert list(lifts) == [("applied", freezer.pk, "repaired"), ("noted", freezer.pk, "")]
    assert client.post(reverse(LIFT, args=[10**9])).status_code == 404
    assert client.post(reverse(LIFT, args=[Freeze.objects.get(effect="noted").pk])).status_code == 404


def test_the_list_tells_how_each_stands(login: Login, freezer: User, running: Run, ann: User) -> None:
    lifted, ended = freeze(reason="a"), freeze(owner=ann, reason="b")
    unfreeze(lifted, reason="c")
    freeze(action="post", reason="d", policy="error rate")
    pending = freeze(connector="tools", reason="e")
    Freeze.objects.filter(pk=ended.pk).update(until=timezone.now())
    Freeze.objects.filter(pk=pending.pk).update(in_force_at=None)
    text = login(freezer).get(reverse(LIST)).text
    standings = ["being put in force", "in force", "done", "ended", "lifted"]
    found = [text.index(f'<td class="field-standing">{standing}</td>') for standing in standings]
    assert found == sorted(found)
    for what in (
        "dispatch to tools",
        "dispatch of post",
        "lift of: all dispatch",
        "all dispatch for ann",
        "error rate",
    ):
        assert what in text


def test_a_list_of_many_takes_no_more_queries(login: Login, freezer: User, running: Run, ann: User) -> None:
    client, counts = login(freezer), []
    client.get(reverse(LIST))
    for _ in range(2):
        unfreeze(freeze(owner=ann, by=freezer, reason="a"), by=freezer)
        with CaptureQueriesContext(connection) as seen:
            client.get(reverse(LIST))
        counts.append(len(seen))
        for _ in range(8):
            freeze(owner=ann, by=freezer, reason="b")
    assert counts[0] == counts[1]


def test_a_row_is_opened_and_neither_changed_nor_deleted(login: Login, root: User, running: Run) -> None:
    held = freeze(reason="a")
    client = login(root)
    for name in ("change", "delete"):
        address = reverse(f"admin:agentstop_freeze_{name}", args=[held.pk])
        assert client.post(address, {"reason": "x", "post": "yes"}).status_code == 403
    assert Freeze.objects.get().reason == "a"
