"""R39: the page of a timeline, its file, and the tag for hosts: for whom, how safe, and in how many queries."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.template import Context, Template
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from agentstop import lifecycle
from agentstop.accounts.selection import PICTURE
from agentstop.models import Operation, Task
from agentstop.runs import begin, serve
from agentstop.stop import stop
from agentstop.story import Kind, Story
from agentstop.templatetags.agentstop_timeline import agentstop_exact
from agentstop.timeline import chronicle, drawing
from tests.crowd import crowd, very_many
from tests.test_views import NASTY, browser, text_of
from tests.timeline.scene import incident, quick, scene

START = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"
READS = re.compile(r"[\s(]*(SELECT|WITH)\b")
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")

pytestmark = pytest.mark.django_db(transaction=True)


def story(task: Task | int, user: User) -> Story:
    return chronicle.load(task if isinstance(task, int) else task.pk, user)[1]


def kinds(told: Story, key: str) -> list[str]:
    row = next(row for row in told.operations if row.detail == key)
    return [fact.kind.value for fact in sorted(row.facts, key=lambda fact: (fact.at, list(Kind).index(fact.kind)))]


def page(task: Task, user: User) -> str:
    return text_of(browser(user).get(f"/tasks/{task.pk}/timeline/"))


def file(task: Task, user: User) -> Any:
    return browser(user).get(f"/tasks/{task.pk}/timeline.svg")


def tag(task: Task, user: User) -> str:
    request = HttpRequest()
    request.user = user
    return Template("{% load agentstop %}{% agentstop_timeline task %}").render(
        Context({"request": request, "task": task})
    )


def test_the_story_of_a_stop_has_every_fact_in_its_words(ann: User) -> None:
    told = story(incident(ann, START), ann)
    assert kinds(told, "crm:q3") == ["passed", "answered", "settled"]
    assert kinds(told, "report:q3") == ["passed", "alive", "alive", "answered", "settled"]
    assert kinds(told, "upload:q3.pdf") == ["passed", "unsent", "passed", "answered", "settled"]
    assert kinds(told, "notify:#board") == ["passed", "alive", "cancel_sent", "acknowledged", "answered", "settled"]
    assert kinds(told, "ticket:review") == ["passed", "alive", "cancel_sent", "acknowledged", "answered", "settled"]
    assert kinds(told, "print:100 copies") == ["passed", "alive", "cancel_sent", "cancel_failed", "alive"]
    assert kinds(told, "mail:investors@example.org") == ["passed", "lost"]
    assert kinds(told, "invite:board") == ["refused"]
    assert kinds(told, "invoice:4711") == []
    assert [fact.kind.value for fact in told.task.facts] == ["begun", "paused", "resumed", "stopped"]
    assert told.stops[0].text == "Stopped by ann. Reason: These are last year's figures"
    assert [(span.name, span.end) for span in told.runs] == [("run 1, stopped", START + timedelta(seconds=31))]
    [pause] = told.pauses
    assert (pause.start, pause.end) == (START + timedelta(seconds=19), START + timedelta(seconds=24.5))


def test_what_may_be_under_way_is_a_stretch_without_an_end(ann: User) -> None:
    rows = {row.detail: row.stretches for row in story(incident(ann, START), ann).operations}
    assert [stretch.end for stretch in rows["print:100 copies"]] == [None]
    sent, doubt = rows["mail:investors@example.org"]
    assert (sent.unsure, doubt.unsure, doubt.end) == (False, True, None)
    assert [bool(stretch.end) for stretch in rows["upload:q3.pdf"]] == [True, True]
    assert rows["invite:board"] == rows["invoice:4711"] == ()


def test_what_is_heard_again_and_again_is_one_fact_on_each_side_of_the_stop(ann: User) -> None:
    told = scene("Report", ann, START)
    told.begun(1, 0)
    operation = told.operation("print.order", "print", 1)
    told.passed(operation, 1)
    for second in (2, 3, 4, 6, 7):
        told.heard(operation, "running", second, "read_back")
    told.stopped(5, ann)
    facts = [fact for fact in story(told.folded(), ann).operations[0].facts if fact.kind is Kind.ALIVE]
    assert [(fact.count, fact.at, fact.until) for fact in facts] == [
        (3, START + timedelta(seconds=2), START + timedelta(seconds=4)),
        (2, START + timedelta(seconds=6), START + timedelta(seconds=7)),
    ]


def test_a_task_that_was_stopped_and_begun_again_has_both_runs_and_its_stop(ann: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=ann, reason="first")
    begin(run.task_id, by=ann)
    told = story(run.task_id, ann)
    assert [span.name for span in told.runs] == ["run 1, stopped", "run 2, live"]
    assert [fact.kind.value for fact in told.task.facts] == ["begun", "stopped", "begun"]
    assert told.goes_on


def test_a_pause_that_nobody_has_lifted_goes_on(ann: User) -> None:
    told = scene("Report", ann, START)
    told.begun(1, 0)
    told.decided("pause", 3, by=ann, run=1)
    [pause] = story(told.folded(), ann).pauses
    assert (pause.start, pause.end) == (START + timedelta(seconds=3), None)


def test_children_have_a_lane_each_with_their_dispatches_and_a_way_to_their_own_picture(ann: User) -> None:
    told = story(incident(ann, START), ann)
    below, detached = told.children
    assert (below.name, below.outcome, len(below.dispatches)) == ("Collect the figures of the regions", "stopped", 6)
    assert [fact.text for fact in below.facts][-1].startswith("Stopped by a task that it worked for.")
    assert (detached.outcome, [stretch.end for stretch in detached.stretches]) == ("running", [None])
    assert browser(ann).get(below.link).status_code == 200


def test_children_that_the_reader_may_not_see_are_not_told(ann: User, ben: User) -> None:
    parent, child = begin("Parent", owner=ann), begin("Somebody else's", owner=ann)
    serve(child.task_id, parent)
    Task.objects.filter(pk=child.task_id).update(owner=ben)
    assert story(parent.task_id, ann).children == ()
    assert "Somebody else" not in page(Task.objects.get(pk=parent.task_id), ann)


def test_of_very_many_children_the_rest_is_counted(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chronicle, "CHILDREN", 2)
    parent = begin("Parent", owner=ann)
    for number in range(5):
        begin(f"Child {number}", serves=[parent])
    told = story(parent.task_id, ann)
    assert (len(told.children), told.rest) == (2, ("3 more tasks work for it.",))
    assert "3 more tasks work for it." in page(Task.objects.get(pk=parent.task_id), ann)


def test_the_page_shows_the_picture_and_the_same_facts_as_a_table(ann: User) -> None:
    task = incident(ann, START)
    text, told = page(task, ann), story(task, ann)
    facts = sum(len(row.facts) for row in told.rows)
    [picture] = re.findall(r"<svg xmlns.*</svg>", text, re.DOTALL)
    marks = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}g") if each.get("transform")]  # noqa: S314
    assert len([mark for mark in marks if mark.find(f"{SVG}title") is not None]) == facts
    assert len(re.findall(r"<tr><td><time", text)) == facts + 4  # and four that nothing has settled yet
    assert "As it is now: unknown outcome." in text
    assert f"3 times, last at {agentstop_exact(START + timedelta(seconds=8))}." in text
    assert "2 times." in text
    assert f'href="/tasks/{task.pk}/timeline.svg"' in text


def test_times_are_in_the_readers_zone_and_language_to_the_millisecond(ann: User) -> None:
    task = incident(ann, START)
    with timezone.override("Asia/Tokyo"), translation.override("de"):
        text = tag(task, ann)
    assert "30. Nov. 2026, 08:30:30.997 JST" in text
    assert "23:30" not in re.sub(r'datetime="[^"]*"', "", text)
    assert "Gestoppt von ann" in text
    assert not re.search(r' (x|y|width|height|d)="[^"]*,', text), "a number was written with a comma"


def test_nothing_in_the_page_is_inline_style_or_script(ann: User) -> None:
    text = page(incident(ann, START), ann)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]*\ssrc=)", text)


def test_the_file_stands_alone_with_its_styles_and_names_its_task(ann: User) -> None:
    answer = file(incident(ann, START), ann)
    assert answer["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="task-')
    assert "sandbox" in answer["Content-Security-Policy"] and "script-src" not in answer["Content-Security-Policy"]
    text = text_of(answer)
    root = ElementTree.fromstring(text)  # noqa: S314  our own file
    assert root.tag == f"{SVG}svg"
    style = root.findtext(f"{SVG}style") or ""
    assert "#1c2126" in style and "@media screen and (prefers-color-scheme: dark)" in style
    assert "var(" not in style and "light-dark" not in style
    assert "Quarterly report for the board" in text and "These are last year" in text
    assert not re.search(r"(href|src)=|url\(|@import|<script", text), "it needs something from elsewhere"


def test_every_colour_of_the_picture_is_one_of_the_panels() -> None:
    rules = (drawing.FOLDER / "timeline.css").read_text()
    assert set(drawing.USE.findall(rules)) <= set(drawing._colours((drawing.FOLDER / "panel.css").read_text())[0])
    assert "#" not in rules


def test_what_others_wrote_is_escaped_and_the_file_stays_well_formed(ann: User) -> None:
    told = scene(NASTY + "\x01", ann, START)
    told.begun(1, 0)
    operation = told.operation("\u202egpj\x02\x0b\uffff", "<b>\u202e" + NASTY, 1)
    told.heard(told.passed(operation, 1), "succeeded", 2)
    told.stopped(3, ann, NASTY + "\x1f]]>")
    task = told.folded()
    for text in (page(task, ann), text_of(file(task, ann))):
        assert "<script>alert" not in text
        assert "&lt;script&gt;" in text
    root = ElementTree.fromstring(text_of(file(task, ann)))  # noqa: S314  our own file
    shown = [each.text or "" for each in root.iter(f"{SVG}tspan") if "\u202e" in (each.text or "")]
    assert len(shown) == 2
    assert all(text[0] == "\u2068" and text[-1] == "\u2069" for text in shown), "it turns around what follows it"


def test_a_stranger_finds_nothing_and_somebody_unknown_is_asked_to_log_in(ann: User, ben: User) -> None:
    task = incident(ann, START)
    for place in ("timeline/", "timeline.svg"):
        answer = browser(ben).get(f"/tasks/{task.pk}/{place}")
        assert (answer.status_code, "Quarterly" in text_of(answer)) == (404, False)
        assert browser(ann).get(f"/tasks/{10**30}/{place}").status_code == 404
        assert browser(ann).post(f"/tasks/{task.pk}/{place}").status_code == 405
        assert Client().get(f"/tasks/{task.pk}/{place}").status_code == 302
    assert tag(task, ben) == ""
    assert "Quarterly" in tag(task, ann)


def test_the_task_page_leads_to_its_timeline(ann: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    assert f'href="/tasks/{task.pk}/timeline/"' in text_of(browser(ann).get(f"/tasks/{task.pk}/"))


def test_three_hundred_operations_take_no_more_queries_than_one(ann: User) -> None:
    counts = []
    for many in (1, 300):
        told = scene(f"{many}", ann, START)
        told.begun(1, 0)
        for number in range(many):
            quick(told, "crm.search", f"k{number}", number, number + 0.3)
        told.stopped(many + 1, ann)
        task = told.folded()
        with CaptureQueriesContext(connection) as queries:
            shown = drawing.context(task.pk, ann)
        assert len(shown["picture"].lanes) == many + 1
        counts.append(len(queries))
    assert counts[1] - counts[0] <= 1  # where it is full, it is asked what there is besides


def test_of_ten_thousand_operations_it_draws_what_is_open_and_new_and_says_on_the_picture_what_it_leaves_out(
    ann: User,
) -> None:
    few, many = crowd(ann, succeeded=400, unknown=1), very_many(ann, None)
    queries = []
    for task in (few, many):
        with CaptureQueriesContext(connection) as captured:
            shown = drawing.context(task.pk, ann)
        queries.append(len(captured))
    assert queries[0] == queries[1]
    assert [row.outcome for row in shown["story"].operations].count("unknown outcome") == 10
    assert len(shown["picture"].lanes) == 1 + 10 + (PICTURE.others or 0)
    left_out = "9690 older operations are counted here and not listed: 9690 completed"
    assert left_out in page(many, ann)
    assert left_out in (picture := file(many, ann).content.decode()) and len(picture) < 600_000


def test_looking_writes_nothing(ann: User) -> None:
    task = incident(ann, START)
    before = list(Operation.objects.order_by("pk").values())
    with CaptureQueriesContext(connection) as queries:
        drawing.file(task.pk, ann)
    assert not [query["sql"] for query in queries if not READS.match(query["sql"]) or WRITES.search(query["sql"])]
    assert list(Operation.objects.order_by("pk").values()) == before


def test_a_tick_is_as_exact_as_it_has_to_be(ann: User) -> None:
    told = scene("Quick", ann, START)
    told.begun(1, 0)
    quick(told, "crm.search", "k", 0.01, 0.05)
    told.stopped(0.06, ann)
    with timezone.override(ZoneInfo("Asia/Kathmandu")):
        assert "05:15:00.010" in tag(told.folded(), ann)
