"""Names, results and reasons with markup, marks of direction, emoji, NUL, 100 kB: escaped and cut on every page."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop.models import Operation, Task
from agentstop.runs import begin
from agentstop.settlement import settle_by_hand
from agentstop.stop import stop
from tests.test_views import browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

BAD = '<script>alert("&amp;")</script>\u202etxt.exe\u2067 \U0001f680\U0001f468\u200d\U0001f469\u200d\U0001f467 '
LONG = BAD + "long" * 25_000 + "\x00end"
MOST = 120_000  # bytes of a page, whatever was put into it


@pytest.fixture
def task(ann: User) -> Task:
    """Bad in every name, reason and result that can be given from outside."""
    run = begin(BAD, owner=ann)
    arguments = {"text": LONG, BAD: BAD}
    run.call(BAD + "made", arguments, connector="tools", key=BAD + "1", send=lambda _: {"url": "javascript:" + BAD})
    run.call(BAD + "said", arguments, connector="tools", key=BAD + "2", send=lambda _: LONG)
    run.call(BAD + "lost", arguments, connector="tools", key=BAD + "3", send=lambda _: 1 / 0)
    settle_by_hand(Operation.objects.latest("pk").pk, by=ann, outcome="failed", reason=LONG[:9000])
    stop(run.task_id, by=ann, reason=LONG)
    return Task.objects.get()


def pages(task: Task) -> list[str]:
    operations = list(Operation.objects.order_by("pk").values_list("pk", flat=True))
    own = [f"/tasks/{task.pk}/{page}" for page in ("", "panel/", "timeline/", "timeline.svg", "family/")]
    return [*own, "/tasks/", "/tasks/?q=script", *(f"/operations/{pk}/" for pk in operations)]


def desk(task: Task) -> list[str]:
    found = [f"/admin/agentstop/task/{task.pk}/change/", "/admin/agentstop/task/", "/admin/agentstop/operation/"]
    found += [f"/admin/agentstop/operation/{each.pk}/change/" for each in Operation.objects.all()]
    return [
        *found,
        "/admin/agentstop/receipt/",
        "/admin/agentstop/decision/",
        f"/admin/agentstop/task/stop/?task={task.pk}",
    ]


def check(user: User, address: str) -> str:
    answer = browser(user).get(address)
    assert answer.status_code == 200, address
    text = str(answer.content.decode())
    assert "<script>alert" not in text and not re.search(r"""=["']?javascript:""", text), address
    assert "\x00" not in text, address
    return text


def test_on_every_page_it_is_escaped_and_cut(ann: User, task: Task) -> None:
    for address in pages(task):
        text = check(ann, address)
        assert len(text) < MOST, (address, len(text))
        assert "txt.exe" in text, address


def test_each_is_isolated_so_that_its_marks_turn_nothing_around_it(ann: User, task: Task) -> None:
    """What follows a mark of direction would be read backwards: names stand in elements of their own."""
    for address in pages(task):
        if address.endswith(".svg"):
            continue  # pictures have isolating characters in their place
        body = re.sub("<svg.*</svg>", "", check(ann, address).split("<body", 1)[-1], flags=re.DOTALL)
        loose = re.sub(r"<(bdi|code|pre|title|textarea)\b[^>]*>.*?</\1>|<[^>]*>", "", body, flags=re.DOTALL)
        assert "\u202e" not in html.unescape(loose), address


def test_at_the_desk_too(ann: User, task: Task, admin_user: Any) -> None:
    for address in desk(task):
        check(admin_user, address)
