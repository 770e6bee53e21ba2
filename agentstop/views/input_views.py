"""The addresses for what people type: add, release, withdraw. All work as plain forms, too."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.translation import gettext

from agentstop import database, inputs
from agentstop.exceptions import TaskNotFound
from agentstop.models import Input
from agentstop.views.addresses import address, answer, is_number
from agentstop.words import input_wording


@address("POST")
def add(request: HttpRequest, task: int) -> HttpResponse:
    """Keep the `text` for the task's agent."""
    text = request.POST.get("text", "").replace("\r\n", "\n")  # as a browser sends lines
    try:
        inputs.add(task, text, by=request.user)
    except ValueError:
        return answer(request, task, _wrong(text))
    return answer(request, task, gettext(input_wording.ADDED))


@address("POST")
def release(request: HttpRequest, task: int) -> HttpResponse:
    """Let the next run that asks have the `input`."""
    done = _decide(request, task, inputs.release)
    return answer(request, task, gettext(input_wording.RELEASED if done else input_wording.NOT_RELEASED))


@address("POST")
def withdraw(request: HttpRequest, task: int) -> HttpResponse:
    """Let no run have the `input` any more."""
    done = _decide(request, task, inputs.withdraw)
    return answer(request, task, gettext(input_wording.WITHDRAWN if done else input_wording.NOT_WITHDRAWN))


def _decide(request: HttpRequest, task: int, decide: Callable[..., bool]) -> bool:
    """An input of this task, and of no other, whatever number was sent."""
    number = request.POST.get("input", "")
    rows = Input.objects.using(database.alias()).filter(task=task)
    if not is_number(number, 18) or not rows.filter(pk=int(number)).exists():
        raise TaskNotFound(f"There is no input {number!r} of task {task} for you.")
    return decide(int(number), by=request.user)


def _wrong(text: str) -> str:
    if not text.strip():
        return gettext(input_wording.EMPTY)
    return gettext(input_wording.TOO_LONG) % {"longest": number_format(inputs.LONGEST)}
