"""Questions of a run to a person: the agent asks and polls, people answer."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from agentstop import answers, database, permissions, questions
from agentstop.api import shapes, telling, waits
from agentstop.api.answers import REFUSALS
from agentstop.api.callers import agent_of, agents, anyone, caller
from agentstop.api.problems import Problem
from agentstop.api.shapes import Id, Number
from agentstop.exceptions import Declined, Expired, TaskNotFound, Unanswered
from agentstop.models import Question, Task
from agentstop.models.facts import Decided
from agentstop.questions import Wish
from agentstop.tokens import Scope

of_runs = Router(tags=["questions"])
router = Router(tags=["questions"])

ANSWER = {200: shapes.QuestionOut, **REFUSALS}


@of_runs.post("", response=ANSWER, auth=agents(Scope.RUN), operation_id="ask")
def ask(
    request: HttpRequest, task: Id, run: Number, wish: shapes.AskIn, how: Query[shapes.WaitIn]
) -> shapes.QuestionOut:
    """Ask a person, or ask again by the same key to poll: answered as soon as it is decided, or after `wait` seconds.

    `state` is `pending`, `applied` (the run has taken its `value`), `declined` or `expired`. 409 once the run is over.
    """
    agent_of(request, task, verb=Decided.START)
    checked = _wish(task, run, wish)
    waits.until(lambda: _look(checked), task, how.wait)
    return telling.asked(Question.objects.using(database.alias()).get(task=task, run=run, key=checked.key).pk)


def _wish(task: int, run: int, wish: shapes.AskIn) -> Wish:
    options: Any = wish.model_dump(exclude={"text"}, exclude_none=True)
    try:
        return questions.make(task, run, wish.text, options)
    except ValueError as error:
        raise Problem("invalid", str(error)) from error


def _look(wish: Wish) -> bool | None:
    """Whether somebody has decided; raises where the run is over."""
    try:
        questions.ask(wish, wait=False)
    except Unanswered:
        return None
    except (Declined, Expired):
        return True
    return True


@router.get("/{question}", response=ANSWER, auth=anyone(Scope.READ), operation_id="question")
def read(request: HttpRequest, question: Id) -> shapes.QuestionOut:
    """A question, and what became of it."""
    _visible(request, question)
    return telling.asked(question)


@router.post("/{question}/answer", response=ANSWER, auth=anyone(Scope.READ), operation_id="answer")
def answer(request: HttpRequest, question: Id, given: shapes.AnswerIn = shapes.NO_ANSWER) -> shapes.QuestionOut:
    """A person answers: a text, one of the choices, or nothing, which approves."""
    person = _person(request, question)
    try:
        answers.answer(question, given.value, by=person)
    except TaskNotFound:
        raise _not_for_you(question) from None
    except ValueError as error:
        raise Problem("invalid", str(error)) from error
    return telling.asked(question)


@router.post("/{question}/decline", response=ANSWER, auth=anyone(Scope.READ), operation_id="decline")
def decline(request: HttpRequest, question: Id, why: shapes.ReasonIn = shapes.NO_REASON) -> shapes.QuestionOut:
    """A person says no: nothing is sent for it."""
    person = _person(request, question)
    try:
        answers.decline(question, by=person, reason=why.reason)
    except TaskNotFound:
        raise _not_for_you(question) from None
    return telling.asked(question)


def _person(request: HttpRequest, question: int) -> Any:
    """Who answers. One who may, and does not see the task, is told as little as a stranger."""
    person, task = caller(request).person, _task(question)
    if task is not None and permissions.may(person, "answer_question", task):
        _visible(request, question)
    return person


def _not_for_you(question: int) -> TaskNotFound:
    return TaskNotFound(f"There is no question {question} for you.")


def _visible(request: HttpRequest, question: int) -> None:
    task = _task(question)
    if task is None or not permissions.may(caller(request).user, "view_task", task):
        raise _not_for_you(question)


def _task(question: int) -> Task | None:
    row = Question.objects.using(database.alias()).select_related("task").filter(pk=question).first()
    return None if row is None else row.task
