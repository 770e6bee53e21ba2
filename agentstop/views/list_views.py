"""The addresses of the list: the list itself, and stopping many of its tasks after a question."""

from __future__ import annotations

from itertools import islice

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from agentstop import database, fragments, listing, permissions
from agentstop.listing import Asked
from agentstop.models import Task
from agentstop.reports import bulk_report, report
from agentstop.views.addresses import REASON, address, safe_next

MOST = 500  # tasks that one press stops: it answers before a browser gives up


@address("GET", "HEAD")
def tasks(request: HttpRequest) -> HttpResponse:
    """The tasks that this person may see."""
    return render(request, "agentstop/list.html")


@address("GET", "HEAD")
def rows(request: HttpRequest) -> HttpResponse:
    """The rows of those of the `tasks` that this person may see, as they are now."""
    named = listing.named(request.GET.get("tasks", ""))
    tasks = Task.objects.using(database.alias()).filter(pk__in=named).order_by("pk")
    found = report.load_all(list(tasks), request.user)
    return HttpResponse("".join(fragments.in_list(told, role) for told, role in found))


@address("GET", "HEAD", "POST")
def stop_all(request: HttpRequest) -> HttpResponse:
    """Say how many tasks would be stopped, and stop those that were named when that is confirmed."""
    back = safe_next(request) or reverse("agentstop:tasks")
    if request.method == "POST":
        return _stopped(request, back)
    asked, mine = Asked.of(request.GET), request.GET.get("mine") == "1"
    chosen, rest = _chosen(request, _found(request, asked, mine))
    context = {
        "choice": bulk_report.Choice.of(request.user, _fitting(request, asked, chosen)),
        "rest": rest,
        "asked": asked,
        "filter": gettext(asked.filter.name),
        "mine": mine,
        "back": back,
    }
    return render(request, "agentstop/stop_all.html", context)


def _stopped(request: HttpRequest, back: str) -> HttpResponse:
    """What became of each task that the question named."""
    named = bulk_report.pairs_of(request.POST.get("tasks", ""))
    if not 0 < len(named) <= MOST:
        return HttpResponseBadRequest(f"tasks must name 1 to {MOST} tasks, each as id:run, with a space between them.")
    answers = bulk_report.stop_named(named, request.user, request.POST.get("reason", "")[:REASON])
    context = {
        "answers": answers,
        "counts": bulk_report.counts_of(answers),
        "back": back,
        "again": request.get_full_path(),
    }
    return render(request, "agentstop/stopped_all.html", context)


def _found(request: HttpRequest, asked: Asked, mine: bool) -> QuerySet[Task]:
    """What a stop would end of what was asked for."""
    if mine:
        return listing.stoppable(permissions.visible(request.user).filter(owner=request.user.pk))
    return listing.stoppable(listing.matching(request.user, asked))


def _chosen(request: HttpRequest, found: QuerySet[Task]) -> tuple[list[Task], int]:
    """The newest of those that this person may see, as many as one press stops, and how many more there are."""
    newest = bulk_report.with_open(found.order_by("-pk"))
    if permissions.counts_by_query():
        chosen = list(newest[:MOST])
        return chosen, found.count() - MOST if len(chosen) == MOST else 0
    seen = permissions.seen(request.user, newest.iterator(MOST))
    return list(islice(seen, MOST)), sum(1 for _ in seen)


def _fitting(request: HttpRequest, asked: Asked, chosen: list[Task]) -> list[Task]:
    """Those that fit at this moment, where what is stored may be out of date."""
    if asked.filter.fits is None:
        return chosen
    fitting = {told.id for told, _ in report.load_all(chosen, request.user) if listing.fits(asked, told)}
    return [task for task in chosen if task.pk in fitting]
