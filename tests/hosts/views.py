"""A host's views: a page about a conversation, and what its agent does."""

from __future__ import annotations

import contextlib
from typing import Any

from django.contrib.auth import get_user_model, login
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentstop.exceptions import Unanswered
from agentstop.models import Task
from agentstop.runs import Run, begin
from tests.hosts.people.models import Conversation


def ann() -> Any:
    """The one person of this host."""
    people: Any = get_user_model()
    return people.objects.filter(email="ann@example.org").first() or people.objects.create_user("ann@example.org")


def enter(request: HttpRequest) -> HttpResponse:
    """Log ann in."""
    login(request, ann(), backend="django.contrib.auth.backends.ModelBackend")
    return HttpResponse("ann")


@transaction.non_atomic_requests
def start(request: HttpRequest) -> HttpResponse:
    """Three tasks about one conversation; the ids of both."""
    conversation = Conversation.objects.create(topic="Q3")
    tasks = [begin(f"Report {number}", owner=request.user, subject=conversation).task_id for number in (1, 2, 3)]
    return HttpResponse(" ".join(map(str, [conversation.pk, *tasks])))


@transaction.non_atomic_requests
def act(request: HttpRequest, task: int) -> HttpResponse:
    """The agent sends something, or asks its owner; told is what became of it."""
    number = Task.objects.get(pk=task).last_run
    if "ask" in request.GET:
        with contextlib.suppress(Unanswered):
            Run(task, number).ask("Go on?", key=request.GET["key"], kind="approve", wait=False)
        return HttpResponse("asked")
    outcome = Run(task, number).call("note.post", {}, connector="tools", key=request.GET["key"], send=lambda op: "done")
    return HttpResponse(str(outcome.outcome))


SCRIPTS = {"htmx2": "htmx2.min.js", "htmx4": "htmx.min.js"}


def page(request: HttpRequest, kind: str, conversation: int) -> HttpResponse:
    """`kind`: which htmx this host has, if any; `late`: the panel is loaded when something is clicked."""
    about = Conversation.objects.get(pk=conversation)
    one, two, *_ = Task.objects.of(about).order_by("pk")
    context = {"script": SCRIPTS.get(kind), "about": about, "one": one, "two": two, "late": "late" in request.GET}
    return render(request, "hosts/page.html", context)


def piece(request: HttpRequest, conversation: int) -> HttpResponse:
    """The panel of the newest task alone."""
    return render(request, "hosts/piece.html", {"about": Conversation.objects.get(pk=conversation)})
