"""The panel's addresses over HTTP: see a task, stop it, have the provider asked. All work as plain forms, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from agentstop import panel, permissions, reconcile, report, sentences, stop
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Operation
from agentstop.stop import StopReport
from agentstop.templatetags.agentstop import agentstop_clock

View = Callable[[HttpRequest, int], HttpResponse]

REASON = 1000  # characters that are kept of a reason


def _address(*methods: str) -> Callable[[View], View]:
    """A view for people who are logged in, outside any transaction, that tells strangers nothing."""

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def answer(request: HttpRequest, task: int) -> HttpResponse:
            if not request.user.is_authenticated:
                return _log_in_first(request, task)
            try:
                return view(request, task)
            except TaskNotFound as error:
                raise Http404(str(error)) from error
            except Denied as error:
                return _denied(request, error)

        guarded = require_http_methods(methods)(csrf_protect(never_cache(answer)))
        return transaction.non_atomic_requests(guarded)

    return decorate


@_address("GET", "HEAD")
def task(request: HttpRequest, task: int) -> HttpResponse:
    """The page of one task."""
    told, _ = report.load(task, request.user)
    return render(request, "agentstop/task.html", {"report": told, "task_id": task})


@_address("GET", "HEAD")
def fragment(request: HttpRequest, task: int) -> HttpResponse:
    """The panel's body alone, as it is now."""
    return _body(request, task)


@_address("POST")
def press_stop(request: HttpRequest, task: int) -> HttpResponse:
    """Stop the task that was shown: `run` is the number of the run that the page saw."""
    number = request.POST.get("run", "")
    if not _is_number(number, 9):
        return HttpResponseBadRequest("run must be the number of the run that the page showed.")
    done = stop.stop(task, by=request.user, reason=request.POST.get("reason", "")[:REASON], run=int(number))
    return _answer(request, task, _said(done, task, request.user))


@_address("POST")
def look_up(request: HttpRequest, task: int) -> HttpResponse:
    """Have the provider of one operation asked now."""
    permissions.get_visible(request.user, task)
    number = request.POST.get("operation", "")
    if not _is_number(number, 18) or not Operation.objects.filter(task=task, pk=int(number)).exists():
        raise TaskNotFound(f"There is no operation {number!r} of task {task} for you.")
    possible = reconcile.look_up_now(int(number), by=request.user)
    return _answer(request, task, gettext(sentences.ASKED_NOW if possible else sentences.NOT_ASKED))


def _is_number(text: str, digits: int) -> bool:
    """Whether it is one, and small enough for its column."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def _said(done: StopReport, task: int, user: Any) -> str:
    """The line that tells what a press did where the state does not show it."""
    told, _ = report.load(task, user)
    sentence = gettext(sentences.PRESSES[done.why]) if done.why else ""
    if told.stop is None:
        return sentence
    return sentence % {"who": told.stop.by or gettext(sentences.SOMEBODY), "at": agentstop_clock(told.stop.at)}


def _answer(request: HttpRequest, task: int, message: str) -> HttpResponse:
    """The truth now: the body for htmx, else the page that the person came from."""
    if _by_htmx(request):
        return _body(request, task, message)
    if message:
        messages.info(request, message, fail_silently=True)
    return HttpResponseRedirect(_next(request, task))


def _body(request: HttpRequest, task: int, message: str = "") -> HttpResponse:
    return render(request, "agentstop/body.html", panel.context(task, request.user, message=message))


def _next(request: HttpRequest, task: int) -> str:
    wanted = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else reverse("agentstop:task", args=[task])


def _by_htmx(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"


def _log_in_first(request: HttpRequest, task: int) -> HttpResponse:
    """To the login page and back to the task; htmx is told so, since it would put that page into the panel."""
    back = request.get_full_path() if request.method in ("GET", "HEAD") else _next(request, task)
    if not _by_htmx(request):
        return redirect_to_login(back)
    return HttpResponse(status=401, headers={"HX-Redirect": redirect_to_login(_next(request, task)).url})


def _denied(request: HttpRequest, error: Denied) -> HttpResponse:
    return render(request, "agentstop/denied.html", {"error": str(error)}, status=403)
