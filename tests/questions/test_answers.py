"""People answer and decline: who may, what counts, and what they are told where it does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, transaction

from agentstop.answers import aanswer, adecline, answer, decline
from agentstop.exceptions import Declined, Denied, NotOpen, TaskNotFound, Unanswered
from agentstop.export import facts
from agentstop.models import Decision, Question, Task
from agentstop.pause import pause
from agentstop.restoring import leave_names_behind
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.passing import let_pass
from tests.questions.conftest import ask, question_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def question(run: Run) -> Question:
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    return question_of(run)


def decisions() -> list[tuple[Any, ...]]:
    about = Decision.objects.filter(question__isnull=False).order_by("pk")
    return list(about.values_list("verb", "effect", "by__username"))


def test_a_stranger_learns_nothing_and_a_viewer_may_not_answer(question: Question, ben: User) -> None:
    """R35."""
    with pytest.raises(TaskNotFound):
        answer(question, by=ben)
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    for press in (answer, decline):
        with pytest.raises(Denied):
            press(question, by=User.objects.get(pk=ben.pk))
    assert decisions() == [("answer", "denied", "ben"), ("answer", "denied", "ben"), ("decline", "denied", "ben")]
    assert not Decision.objects.filter(effect="applied", question=question).exists()


def test_somebody_else_with_the_right_may_answer(run: Run, question: Question, ben: User) -> None:
    ben.user_permissions.set(Permission.objects.filter(codename__in=["view_task", "answer_question"]))
    answer(question, by=User.objects.get(pk=ben.pk))
    assert ask(run).by == ben.pk


def test_there_is_no_answer_by_nobody(question: Question) -> None:
    with pytest.raises(ValueError, match="the person who answers"):
        answer(question, by=None)


def test_a_question_that_is_not_there(ann: User, question: Question) -> None:
    for number in (0, question.pk + 1, 10**18):
        with pytest.raises(TaskNotFound):
            answer(number, by=ann)


@pytest.mark.parametrize("first", [answer, decline])
@pytest.mark.parametrize("second", [answer, decline])
def test_the_second_word_changes_nothing_and_its_person_is_told_whose_counts(
    run: Run, question: Question, ann: User, first: Any, second: Any
) -> None:
    first(question, by=ann)
    with pytest.raises(NotOpen, match="already, by ann") as told:
        second(question, by=ann)
    assert told.value.why == ("answered" if first is answer else "declined")
    assert [effect for _, effect, _ in decisions()] == ["applied", "noted"]
    if first is answer:
        assert ask(run).value == "approved"
    else:
        with pytest.raises(Declined):
            ask(run)


@pytest.mark.parametrize("press", [answer, decline])
@pytest.mark.parametrize("how", ["stopped", "superseded", "finished"])
def test_a_late_answer_is_refused_with_the_reason(
    run: Run, question: Question, ann: User, press: Any, how: str
) -> None:
    ends = {
        "stopped": lambda: stop(run.task_id, by=ann),
        "superseded": lambda: begin(run.task_id),
        "finished": run.finish,
    }
    ends[how]()
    with pytest.raises(NotOpen, match="Nothing was changed") as told:
        press(question, by=ann)
    assert told.value.why == how
    assert decisions()[0][1] == "noted"


def test_an_expired_question_takes_no_answer(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False, within=5.0)
    let_pass(run.task_id, 5.0)
    with pytest.raises(NotOpen, match="too late") as told:
        answer(question_of(run), by=ann)
    assert told.value.why == "expired"


def test_an_answer_to_a_paused_task_is_saved(run: Run, question: Question, ann: User) -> None:
    pause(run.task_id, by=ann)
    answer(question, by=ann)
    assert ask(run).value == "approved"


@pytest.mark.parametrize(
    ("options", "value", "words"),
    [
        ({"kind": "approve"}, "yes", "approved or declined"),
        ({"kind": "answer"}, "", "not empty"),
        ({"kind": "answer"}, " \n", "not empty"),
        ({"kind": "answer"}, "x" * 10_001, "10001 characters"),
        ({"kind": "answer", "choices": ["red", "blue"]}, "green", "one of 'red', 'blue'"),
    ],
)
def test_what_is_no_answer_is_not_saved(run: Run, ann: User, options: dict[str, Any], value: str, words: str) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False, **options)
    with pytest.raises(ValueError, match=words):
        answer(question_of(run), value, by=ann)
    assert decisions() == []
    with pytest.raises(Unanswered):
        ask(run, wait=False, **options)


def test_the_database_itself_lets_one_answer_count(question: Question, ann: User) -> None:
    answer(question, by=ann)
    said = Decision.objects.get(question=question)
    said.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        said.save(force_insert=True)


def test_both_can_be_awaited(run: Run, question: Question, ann: User, in_thread: InThread) -> None:
    async def press() -> None:
        await aanswer(question, by=ann)
        with pytest.raises(NotOpen):
            await adecline(question, by=ann)

    in_thread(lambda: asyncio.run(press())).result(HANG_GUARD)
    assert ask(run).value == "approved"


def test_the_export_tells_who_said_what_and_when_it_was_taken(run: Run, question: Question, ann: User) -> None:
    """R36; what people wrote is left out where bodies are."""
    answer(question, by=ann)
    ask(run)
    task = Task.objects.get(pk=run.task_id)
    rows = [row for row in facts(task) if row["key"] == "send"]
    assert [(row["fact"], row["what"], row["by"]) for row in rows] == [
        ("question", "asked", ""),
        ("decision", "answer", "ann"),
        ("question", "taken", ""),
    ]
    assert "approved" in rows[1]["detail"] and rows[0]["text"] == question.text
    without = [row for row in facts(task, bodies=False) if row["key"] == "send"]
    assert [(row["text"], row["detail"]) for row in without] == [("", ""), ("", ""), ("", "")]


def test_after_a_restored_backup_no_old_page_answers_a_new_question(question: Question, ann: User) -> None:
    """The number on a page that was drawn before means nothing new."""
    stop(question.task_id, by=ann)
    leave_names_behind()
    newer = begin("Another", owner=ann)
    with pytest.raises(Unanswered):
        ask(newer, wait=False)
    assert question_of(newer).pk > question.pk + 1000
