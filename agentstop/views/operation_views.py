"""The page of one operation: what its provider can do, what was sent and heard, and whose result it is."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentstop import database
from agentstop.accounts import selection
from agentstop.exceptions import TaskNotFound
from agentstop.models import Operation
from agentstop.reports import evidence_report, report
from agentstop.views.addresses import address


@address("GET", "HEAD")
def operation(request: HttpRequest, operation: int) -> HttpResponse:
    """For whoever may see the task; read only when it is asked for."""
    row = Operation.objects.using(database.alias()).filter(pk=operation).first()
    if row is None:
        raise TaskNotFound(f"There is no operation {operation} for you.")
    told, _ = report.load(row.task_id, request.user, selection.only([row.pk]))
    found, entries = evidence_report.page(row, request.GET.get("page"))
    context = {
        "report": told,
        "operation": next(each for each in told.operations if each.id == operation),
        "abilities": evidence_report.abilities(row),
        "page": found,
        "entries": entries,
    }
    return render(request, "agentstop/operation.html", context)
