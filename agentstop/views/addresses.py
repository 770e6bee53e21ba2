"""What all addresses share: who may come in, and how a press is answered, with JavaScript and without."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from agentstop import database, panel
from agentstop.exceptions import Denied, TaskNotFound

View = Callable[..., HttpResponse]

ASKED_BY = "Agentstop-Request"  # the header that `agentstop/panel.js` names itself by: panel, button or list
REASON = 1000  # characters that are kept of a reason


def address(*methods: str) -> Callable[[View], Callable[..., HttpResponse]]:
    """A view for people who are logged in, outside any transaction, that tells strangers nothing."""

    def decorate(view: View) -> Callable[..., HttpResponse]:
        @functools.wraps(view)
        def guarded(request: HttpRequest, **which: int) -> HttpResponse:
            if not request.user.is_authenticated:
                return _log_in_first(request, which.get("task"))
            try:
                return view(request, *which.values())
            except TaskNotFound as error:
                raise Http404(str(error)) from error
            except Denied as error:
                return _denied(request, error)

        allowed = require_http_methods(methods)(csrf_protect(never_cache(guarded)))
        return transaction.non_atomic_requests(using=database.alias())(allowed)

    return decorate


def answer(request: HttpRequest, task: int, message: str) -> HttpResponse:
    """The truth now: for our script what it carries, else the page that the person came from."""
    carried = request.headers.get(ASKED_BY, "")
    if carried == "panel":
        return body(request, task, message)
    if carried == "button":
        return button(request, task, message)
    return back(request, task, message)


def back(request: HttpRequest, task: int, message: str) -> HttpResponse:
    """To the page that the person came from, which shows the message where messages are installed."""
    if message:
        messages.info(request, message, fail_silently=True)
    return HttpResponseRedirect(next_page(request, task))


def body(request: HttpRequest, task: int, message: str = "") -> HttpResponse:
    """The panel's body alone."""
    return render(request, "agentstop/body.html", panel.context(task, request.user, message=message))


def button(request: HttpRequest, task: int, message: str = "") -> HttpResponse:
    """What stands beside a Stop button that stands alone, and the button."""
    return render(request, "agentstop/button.html", panel.button_context(task, request.user, message=message))


def next_page(request: HttpRequest, task: int) -> str:
    """Where the person came from, if that is a page of this site; else the task's own."""
    return safe_next(request) or reverse("agentstop:task", args=[task])


def safe_next(request: HttpRequest) -> str:
    """Where the person came from; empty where that is no page of this site."""
    wanted = request.POST.get("next", "") or request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else ""


def is_number(text: str, digits: int) -> bool:
    """Whether it is one, and small enough for its column."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def _log_in_first(request: HttpRequest, task: int | None) -> HttpResponse:
    """To the login page and back; our script is told so, since that page is no part of a panel."""
    here = request.get_full_path()
    page = here if task is None else next_page(request, task)  # what is confirmed has a page at its own address
    if ASKED_BY not in request.headers:
        return redirect_to_login(here if request.method in ("GET", "HEAD") else page)
    return HttpResponse(status=401, headers={"Agentstop-Location": redirect_to_login(page).url})


def _denied(request: HttpRequest, error: Denied) -> HttpResponse:
    return render(request, "agentstop/denied.html", {"error": str(error)}, status=403)
