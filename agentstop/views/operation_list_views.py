"""The address of all operations of a task, in pages."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from agentstop import fragments, panel
from agentstop.reports import operation_pages
from agentstop.views.addresses import address, is_number
from agentstop.words import rest_words


@address("GET", "HEAD")
def operations(request: HttpRequest, task: int) -> HttpResponse:
    """Those of the task's operations that read as `show` says, older than `before` where that is given."""
    show, before = request.GET.get("show", ""), request.GET.get("before", "")
    show = show if show in rest_words.SHOWN else ""
    found = operation_pages.page(task, request.user, show, int(before) if is_number(before, 18) else None)
    context = {
        "report": found.task,
        "prefix": panel.prefix(task),
        "forms": panel.forms(task),
        "rows": [fragments.row(found.task, operation, found.role) for operation in found.operations],
        "filters": [(word, gettext(name), word == show) for word, (name, _) in rest_words.SHOWN.items()],
        "show": show,
        "older": found.older,
        "paged": bool(before),
        "next": request.get_full_path(),
    }
    return render(request, "agentstop/operations.html", context)
