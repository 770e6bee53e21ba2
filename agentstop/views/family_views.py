"""The addresses for pausing, resuming and beginning again, and the page of a task's family. All work as plain forms."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.utils.translation import gettext

from agentstop import holds, pause, permissions, starting
from agentstop.accounts import family_account
from agentstop.accounts.family_account import KnownChild
from agentstop.exceptions import Paused, Stopped, Superseded
from agentstop.models import Task
from agentstop.models.facts import Decided
from agentstop.reports import family_report, report
from agentstop.states import TaskState
from agentstop.views.addresses import address, answer, is_number
from agentstop.words import family_words

PAGE = 50


@address("POST")
def press_pause(request: HttpRequest, task: int) -> HttpResponse:
    """Hold the task's dispatch."""
    done = pause.pause(task, by=request.user)
    return answer(request, task, gettext(family_words.PAUSED_NOW if done else family_words.NOT_PAUSED_NOW))


@address("POST")
def press_resume(request: HttpRequest, task: int) -> HttpResponse:
    """Take away the task's own pause."""
    done = pause.resume(task, by=request.user)
    return answer(request, task, gettext(_resumed(task) if done else family_words.NOT_RESUMED_NOW))


def _resumed(task: int) -> str:
    held = holds.open_causes(task).exists()
    return family_words.STILL_HELD if held else family_words.RESUMED_NOW


@address("POST")
def new_run(request: HttpRequest, task: int) -> HttpResponse:
    """Begin a run after the one that was shown, and have its agent started."""
    number = request.POST.get("run", "")
    if not is_number(number, 9):
        return HttpResponseBadRequest("run must be the number of the run that the page showed.")
    return answer(request, task, gettext(_begun(request, task, int(number))))


def _begun(request: HttpRequest, task: int, run: int) -> str:
    if not starting.can_start():
        permissions.get_allowed(request.user, "start_run", task, Decided.START)
        return family_words.NO_RUNNER
    try:
        starting.start(task, by=request.user, run=run)
    except Superseded:
        return family_words.NEWER_BEGUN
    except Paused:
        return family_words.NOT_BEGUN_PAUSED
    except (starting.NotStarted, Stopped):
        return family_words.NOT_STARTED
    return family_words.BEGUN_NOW


@address("GET", "HEAD")
def family(request: HttpRequest, task: int) -> HttpResponse:
    """All children of a task, and all that was stopped with it, in pages, with what these have open."""
    told, _ = report.load(task, request.user)
    found = permissions.get_visible(request.user, task)
    children = Paginator(family_account.children_of(found), PAGE).get_page(request.GET.get("children"))
    stopped = Paginator(family_account.stopped_with(found), PAGE).get_page(request.GET.get("stopped"))
    known = family_account.known_children(found, list(children.object_list))
    left = family_account.open_below(found)
    context = {
        "report": told,
        "children": children,
        "told": [_child(request.user, child, found) for child in known],
        "stopped": stopped,
        "with_it": [
            (_relative(request.user, decision.task), family_report.tell_open(left.get(decision.task_id, 0)))
            for decision in stopped.object_list
        ],
        "open_below": family_report.tell_open_below(sum(left.values())),
        "state": TaskState(found.state),
    }
    return render(request, "agentstop/family.html", context)


def _child(user: Any, known: KnownChild, parent: Task) -> family_report.Child | None:
    """None for a reader who may not see it."""
    return family_report.tell_child(known, parent) if permissions.may(user, "view_task", known.task) else None


def _relative(user: Any, task: Task) -> family_report.Relative | None:
    return family_report.relative(task) if permissions.may(user, "view_task", task) else None
