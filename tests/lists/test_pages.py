"""The list as a page: links and forms alone, safe, and the same row from page and socket."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest, QueryDict
from django.template import Context, Template
from django.test import Client

from agentstop import lifecycle
from agentstop.fragments import in_list
from agentstop.models import Task
from agentstop.reports.report import load
from agentstop.runs import begin
from agentstop.stop import stop
from tests.lists.many import in_doubt, many_tasks
from tests.test_views import NASTY, browser, press, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def page(user: User, query: str = "") -> str:
    return text_of(browser(user).get(f"/tasks/{query}"))


def tag(user: User, query: str = "") -> str:
    request = HttpRequest()
    request.user, request.GET, request.path = user, QueryDict(query), "/here/"
    return Template("{% load agentstop %}{% agentstop_list live=False %}").render(Context({"request": request}))


def test_filters_are_links_and_the_one_that_holds_is_marked(ann: User) -> None:
    text = page(ann, "?show=open&q=a%26b")
    assert re.findall(r'<a href="([^"]*)" aria-current="true">([^<]*)</a>', text) == [
        ("?show=open&amp;q=a%26b", "Something open")
    ]
    assert '<a href="?q=a%26b">All</a>' in text
    assert 'name="q" value="a&amp;b"' in text
    assert '<input type="hidden" name="show" value="open">' in text


def test_a_list_in_which_nothing_fits_says_so_and_leads_out(ann: User) -> None:
    assert "No tasks." in page(ann)
    lifecycle.create("there", owner=ann)
    assert "No task fits here now." in page(ann, "?show=paused")
    assert 'href="?">Show all' in page(ann, "?show=paused")


def test_pages_are_links(ann: User) -> None:
    many_tasks(lifecycle.create("Report 0", owner=ann), 30)
    first = page(ann, "?q=report")
    [older] = re.findall(r'<a href="([^"]*)" rel="next">Older</a>', first)
    assert "Newer" not in first
    second = page(ann, older.replace("&amp;", "&"))
    assert "Older" not in second and 'rel="prev">Newer</a>' in second


def test_each_row_that_can_be_stopped_has_a_button_of_its_own_that_works_without_script(ann: User) -> None:
    run = begin("Report", owner=ann)
    text = page(ann)
    address = f"/tasks/{run.task_id}/stop/"
    assert f'form="agentstop-tasks-stop" formaction="{address}" name="run" value="1"' in text
    assert '<form id="agentstop-tasks-stop" method="post">' in text and "csrfmiddlewaretoken" in text
    client = browser(ann)
    answer = press(client, run.task_id, 1, next="/tasks/?show=active")
    assert answer["Location"] == "/tasks/?show=active"
    assert Task.objects.get().state == "stopped"
    assert "formaction" not in page(ann)


def test_who_may_not_stop_has_no_button(ann: User, olga: User) -> None:
    begin("Report", owner=ann)
    olga.user_permissions.remove(*Permission.objects.filter(codename="stop_task"))
    assert "formaction" not in page(User.objects.get(pk=olga.pk))


def test_the_row_of_the_socket_is_that_of_the_page_and_holds_no_token(ann: User) -> None:
    run = begin("Report", owner=ann)
    row = in_list(*load(run.task_id, ann))
    assert row in page(ann)
    assert "csrf" not in row


def test_stopping_many_is_offered_for_what_is_mine_and_for_what_a_filter_shows(ann: User) -> None:
    assert "Stop everything of mine…" in page(ann)
    assert "Stop all that fit here…" not in page(ann)
    assert 'href="/tasks/stop/?show=open&amp;q=x&amp;next=%2Ftasks%2F%3Fshow%3Dopen%26q%3Dx"' in page(
        ann, "?show=open&q=x"
    )


def test_what_others_wrote_is_shown_and_does_nothing(ann: User) -> None:
    run = begin(NASTY, owner=ann)
    stop(run.task_id, by=ann, reason=NASTY)
    in_doubt(ann, NASTY)
    for text in (page(ann), page(ann, "?q=%3Cscript%3E%22'"), page(ann, "?show=%3Cscript%3E")):
        assert "<script>alert" not in text and 'value="<' not in text
    assert page(ann).count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2


def test_a_hosts_page_has_the_same_list(ann: User, ben: User) -> None:
    lifecycle.create("Report", owner=ann)
    text = tag(ann, "show=active")
    assert "Report" in text and 'name="next" value="/here/' in text
    assert "data-agentstop-socket" not in text
    assert "Report" not in tag(ben)


def test_a_stranger_is_asked_to_log_in() -> None:
    assert Client().get("/tasks/").status_code == 302
    assert Client().get("/tasks/stop/").status_code == 302
