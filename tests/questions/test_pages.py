"""Questions on the panel: what is read, and what the forms do with and without JavaScript."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agentstop import question_facts
from agentstop.accounts import account
from agentstop.answers import answer, decline
from agentstop.exceptions import Unanswered
from agentstop.fragments import in_list
from agentstop.models import Decision, Question
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.passing import let_pass
from tests.questions.conftest import SEND_IT, ask, question_of
from tests.test_views import NASTY, SCRIPTED, browser, text_of

pytestmark = pytest.mark.django_db(transaction=True)


def put(run: Run, text: str = SEND_IT, **options: Any) -> Question:
    with pytest.raises(Unanswered):
        ask(run, text, wait=False, **options)
    return question_of(run, options.get("key", "send"))


def panel(client: Client, run: Run) -> str:
    return html.unescape(text_of(client.get(f"/tasks/{run.task_id}/panel/")))


def field(name: str, question: Question, text: str) -> dict[str, Any]:
    """What was typed into a field of this question."""
    return {f"{name}-{question.pk}": text}


def press(client: Client, run: Run, *, scripted: bool = False, **data: Any) -> Any:
    return client.post(f"/tasks/{run.task_id}/answer/", data, headers=SCRIPTED if scripted else {})


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(text)).split())


def test_the_owner_reads_what_would_be_sent_and_has_a_form_outside_of_what_is_swapped(run: Run, ann: User) -> None:
    question = put(run, details={"to": "everybody", "password": "hunter2"})
    shown = panel(browser(ann), run)
    assert SEND_IT in shown and '"to": "everybody"' in shown and "hunter2" not in shown
    form = f'form="agentstop-task-{run.task_id}-answer"'
    for name in ("approve", "decline"):
        assert f'<button type="submit" {form} name="{name}" value="{question.pk}"' in shown
    page = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert f'<form id="agentstop-task-{run.task_id}-answer" method="post" action="/tasks/{run.task_id}/answer/"' in page


def test_an_approval_without_javascript(run: Run, ann: User) -> None:
    question = put(run)
    client = browser(ann)
    answered = press(client, run, approve=question.pk, next="/tasks/?page=2")
    assert (answered.status_code, answered["Location"]) == (302, "/tasks/?page=2")
    assert ask(run).value == "approved"
    assert "Approved by ann at" in words(panel(client, run))


def test_an_approval_by_the_script_answers_with_the_truth_now(run: Run, ann: User) -> None:
    question = put(run)
    shown = text_of(press(browser(ann), run, scripted=True, approve=question.pk))
    assert "It was approved." in shown and "Approved by" in shown
    assert "The agent has not taken the answer yet." in shown
    assert 'name="approve"' in shown and f'type="submit" form="agentstop-task-{run.task_id}-answer"' not in shown


def test_a_decline_keeps_its_reason(run: Run, ann: User) -> None:
    question = put(run)
    client = browser(ann)
    press(client, run, decline=question.pk, **field("reason", question, "too early"))
    shown = words(panel(client, run))
    assert "Declined by ann at" in shown and "too early" in shown


def test_a_text_is_typed_and_a_choice_is_pressed(run: Run, ann: User) -> None:
    typed = put(run, "Which channel?", key="channel", kind="answer")
    chosen = put(run, "Which colour?", key="colour", kind="answer", choices=["red", "blue"])
    client = browser(ann)
    press(client, run, answer=typed.pk, **field("answer", typed, "#team"), **field("answer", chosen, "ignored"))
    press(client, run, choose=f"{chosen.pk}.1")
    assert ask(run, "Which channel?", key="channel", kind="answer").value == "#team"
    assert ask(run, "Which colour?", key="colour", kind="answer", choices=["red", "blue"]).value == "blue"


def test_an_empty_answer_saves_nothing_and_says_so(run: Run, ann: User) -> None:
    question = put(run, kind="answer")
    shown = text_of(press(browser(ann), run, scripted=True, answer=question.pk))
    assert "Write an answer, or choose one: nothing was saved." in shown
    assert not Decision.objects.filter(question=question).exists()


@pytest.mark.parametrize("data", [{}, {"approve": "x"}, {"approve": ""}, {"approve": "-1"}, {"choose": ".1"}])
def test_a_press_that_names_no_question_is_a_bad_request(run: Run, ann: User, data: dict[str, Any]) -> None:
    put(run)
    assert press(browser(ann), run, **data).status_code == 400


@pytest.mark.parametrize("choice", ["", "2", "-1", "x", "9999999"])
def test_a_choice_that_there_is_not_saves_nothing(run: Run, ann: User, choice: str) -> None:
    question = put(run, kind="answer", choices=["red", "blue"])
    assert "nothing was saved" in text_of(press(browser(ann), run, scripted=True, choose=f"{question.pk}.{choice}"))
    assert not Decision.objects.filter(question=question).exists()


def test_a_strangers_press_and_a_question_of_another_task_are_not_found(run: Run, ann: User, ben: User) -> None:
    """R35."""
    question, other = put(run), put(begin("Another", owner=ann))
    assert press(browser(ben), run, approve=question.pk).status_code == 404
    assert press(browser(ann), run, approve=other.pk).status_code == 404
    assert press(browser(ann), run, approve=10**17).status_code == 404
    assert press(Client(), run, approve=question.pk).status_code == 302
    assert browser(ann).get(f"/tasks/{run.task_id}/answer/").status_code == 405
    kept = Decision.objects.get(question__isnull=False)
    assert (kept.question, kept.by, kept.effect, kept.task_id) == (question, ben, "denied", run.task_id)


def test_a_viewer_reads_it_and_has_no_buttons_and_is_denied(run: Run, ben: User) -> None:
    question = put(run)
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    client = browser(ben)
    shown = panel(client, run)
    assert SEND_IT in shown and "You may read this question, and not answer it." in shown
    assert 'name="approve"' not in shown
    assert press(client, run, approve=question.pk).status_code == 403
    assert Decision.objects.get(question=question).effect == "denied"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("stop", "The task was stopped before that: your answer was not taken."),
        ("begin", "A newer run has begun before that: your answer was not taken."),
        ("finish", "The agent had ended before that: your answer was not taken."),
        ("expire", "That was too late: your answer was not taken."),
        ("answer", "It was answered already, by olga: your answer changed nothing."),
        ("decline", "It was declined already, by olga: your answer changed nothing."),
    ],
)
def test_a_press_on_an_old_page_is_told_why_it_changed_nothing(
    run: Run, ann: User, olga: User, how: str, told: str
) -> None:
    olga.user_permissions.add(Permission.objects.get(codename="answer_question"))
    question = put(run, within=60.0)
    ends: dict[str, Callable[[], object]] = {
        "stop": lambda: stop(run.task_id, by=ann),
        "begin": lambda: begin(run.task_id),
        "finish": run.finish,
        "expire": lambda: let_pass(run.task_id, 60.0),
        "answer": lambda: answer(question, by=User.objects.get(pk=olga.pk)),
        "decline": lambda: decline(question, by=User.objects.get(pk=olga.pk)),
    }
    ends[how]()
    assert told in text_of(press(browser(ann), run, scripted=True, approve=question.pk))


def test_what_is_over_stays_to_be_read_and_has_nothing_to_press(run: Run, ann: User) -> None:
    put(run)
    stop(run.task_id, by=ann)
    shown = panel(browser(ann), run)
    assert "Closed: the task was stopped before the agent had taken an answer." in shown
    assert f'form="agentstop-task-{run.task_id}-answer" name=' not in shown


def test_text_of_agents_and_people_is_never_markup(run: Run, ann: User) -> None:
    typed = put(run, NASTY, key="a", kind="answer", details={NASTY: NASTY})
    put(run, NASTY, key="b", kind="answer", choices=[NASTY])
    declined = put(run, NASTY, key="c")
    client = browser(ann)
    press(client, run, answer=typed.pk, **field("answer", typed, NASTY))
    press(client, run, decline=declined.pk, **field("reason", declined, NASTY))
    assert "<script>alert" not in text_of(client.get(f"/tasks/{run.task_id}/"))


def test_a_task_without_questions_has_an_empty_place_for_them(run: Run, ann: User) -> None:
    """So that the first one that is pushed finds it."""
    shown = text_of(browser(ann).get(f"/tasks/{run.task_id}/panel/"))
    assert f'<div id="agentstop-task-{run.task_id}-questions" class="agentstop-questions"></div>' in shown


def test_the_list_marks_who_waits_for_whom(run: Run, ann: User, ben: User) -> None:
    put(run)
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    rows = {}
    for user in (ann, User.objects.get(pk=ben.pk)):
        told, role = report.load(run.task_id, user)
        rows[user.username] = words(in_list(told, role))
    assert "waiting for you" in rows["ann"] and "1 question waits for an answer." in rows["ann"]
    assert "waiting for you" not in rows["ben"] and "waiting for a person" in rows["ben"]
    answer(question_of(run), by=ann)
    assert "waiting for" not in words(in_list(*report.load(run.task_id, ann)))


def test_many_questions_cost_as_many_queries_as_one(run: Run, ann: User) -> None:
    def counted() -> int:
        with CaptureQueriesContext(connection) as queries:
            report.load(run.task_id, ann)
        return len(queries)

    answer(put(run, key="first"), by=ann)
    before = counted()
    for number in range(10):
        answer(put(run, key=str(number)), by=ann)
    assert counted() == before


def test_everything_about_a_question_changes_the_mark_by_which_a_sweep_finds_it(run: Run, ann: User) -> None:
    """R37: a lost message is made good."""
    marks = [account.marks([run.task_id])[run.task_id]]
    steps: list[Callable[[], object]] = [lambda: put(run), lambda: answer(question_of(run), by=ann), lambda: ask(run)]
    for step in steps:
        step()
        marks.append(account.marks([run.task_id])[run.task_id])
    assert len(set(marks)) == 4


def test_a_stop_between_two_reads_of_a_page_closes_no_question_of_a_task_that_it_shows_as_running(
    run: Run, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One picture, one truth: what came in between is told by the next picture, as a whole."""
    put(run)
    read = question_facts.by_task

    def stopped_before(*args: Any) -> Any:
        stop(run.task_id, by=ann)
        return read(*args)

    monkeypatch.setattr(question_facts, "by_task", stopped_before)
    told = report.load(run.task_id, ann)[0]
    assert (told.state, [each.state for each in told.questions]) == ("active", ["pending"])
    monkeypatch.undo()
    told = report.load(run.task_id, ann)[0]
    assert (told.state, [each.state for each in told.questions]) == ("stopped", ["closed"])
