"""Hosts hear that a person is asked, and whose word counts: once, and after the commit."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop.answers import answer, decline
from agentstop.exceptions import NotOpen, Unanswered
from agentstop.runs import Run
from agentstop.stop import stop
from tests.questions.conftest import SEND_IT, ask, question_of
from tests.test_signals import Told, named, told

__all__ = ["told"]  # the fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def put(run: Run) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False)


def test_a_question_is_told_once_however_often_it_is_asked(told: Told, run: Run) -> None:
    put(run)
    put(run)
    [asked] = named(told, "question_asked")
    question = question_of(run)
    assert asked == {
        "sender": "Question",
        "task": run.task_id,
        "run": run.number,
        "question": question.pk,
        "kind": "approve",
        "text": SEND_IT,
        "until": None,
        "at": question.asked_at,
    }


@pytest.mark.parametrize("press", [answer, decline])
def test_the_word_that_counts_is_told_and_no_later_one(told: Told, run: Run, ann: User, press: object) -> None:
    put(run)
    question = question_of(run)
    (answer if press is answer else decline)(question, by=ann)
    with pytest.raises(NotOpen):
        answer(question, by=ann)
    [answered] = named(told, "question_answered")
    assert (answered["question"], answered["by"], answered["declined"]) == (question.pk, ann, press is decline)


def test_an_answer_that_is_refused_is_not_told(told: Told, run: Run, ann: User) -> None:
    put(run)
    stop(run.task_id, by=ann)
    with pytest.raises(NotOpen):
        answer(question_of(run), by=ann)
    assert named(told, "question_answered") == []
