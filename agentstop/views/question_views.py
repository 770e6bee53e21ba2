"""The address at which people answer what a run asks; it works as a plain form, too."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext

from agentstop import answers, database, permissions
from agentstop.exceptions import NotOpen, TaskNotFound
from agentstop.models import Question
from agentstop.question_facts import read
from agentstop.reports.remedies import name_of
from agentstop.views.addresses import REASON, address, answer, is_number
from agentstop.words import question_sentences as sentences
from agentstop.words.sentences import A_PERSON

PRESSES = ("approve", "decline", "choose", "answer")  # the names of the buttons; their values name the question


@address("POST")
def reply(request: HttpRequest, task: int) -> HttpResponse:
    """Answer or decline the question that the pressed button names: its id, and in `choose` the choice's place, `7.0`.

    `answer-<id>` is the text of an answer, `reason-<id>` that of a decline.
    """
    press = next((name for name in PRESSES if name in request.POST), "")
    number, _, choice = request.POST.get(press, "").partition(".")
    question = _question(task, number)
    if question is None:
        permissions.get_visible(request.user, task)
        if not is_number(number, 18):
            return HttpResponseBadRequest(f"One of {', '.join(PRESSES)} must be the number of a question.")
        raise TaskNotFound(f"There is no question {number} of task {task} for you.")
    try:
        message = _reply(request, question, press, choice)
    except ValueError:
        message = gettext(sentences.NO_ANSWER)
    except NotOpen as refusal:
        message = gettext(sentences.NOT_TAKEN[refusal.why]) % {"who": _who(question)}
    return answer(request, task, message)


def _question(task: int, number: str) -> Question | None:
    if not is_number(number, 18):
        return None
    return Question.objects.using(database.alias()).filter(task=task, pk=int(number)).first()


def _reply(request: HttpRequest, question: Question, press: str, choice: str) -> str:
    """Do what was pressed; what to tell the person."""
    if press == "decline":
        answers.decline(question, by=request.user, reason=request.POST.get(f"reason-{question.pk}", "")[:REASON])
        return gettext(sentences.DECLINED)
    if press == "approve":
        answers.answer(question, by=request.user)
        return gettext(sentences.APPROVED)
    value = _chosen(question, choice) if press == "choose" else request.POST.get(f"answer-{question.pk}", "")
    answers.answer(question, value, by=request.user)
    return gettext(sentences.SAVED)


def _chosen(question: Question, number: str) -> str:
    choices: list[Any] = question.choices
    return str(choices[int(number)]) if is_number(number, 3) and int(number) < len(choices) else ""


def _who(question: Question) -> str:
    """Who was first."""
    (asked,) = read(Question.objects.filter(pk=question.pk), database.now())
    return (name_of(asked.reply.by) if asked.reply is not None else "") or gettext(A_PERSON)
