"""Operations, with everything that is known of each, and the question to the provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop import conf, connectors, follow_up, reconcile
from agentstop.admin.base import Tool, moment, non_atomic, short
from agentstop.admin.configured import configured
from agentstop.admin.desk import BoardFilter, lines
from agentstop.admin.exporting import TellsFacts
from agentstop.admin.inlines import AttemptInline, CallInline, DecisionInline, ReceiptInline
from agentstop.admin.reading import reads_as, told
from agentstop.admin.remedies import RemediesOperations
from agentstop.exceptions import TaskNotFound
from agentstop.models import Operation
from agentstop.words.capability_words import describe


class ConnectorFilter(admin.SimpleListFilter):
    """The connectors of the settings: to ask the table for its own would read all of it."""

    title = _("connector")
    parameter_name = "connector"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in sorted(conf.CONNECTORS)]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        return queryset.filter(connector=self.value()) if self.value() else queryset


@admin.register(Operation)
class OperationAdmin(TellsFacts, RemediesOperations):
    facts_about = ("decision", "attempt", "receipt", "call")
    list_display = ("name", "task_link", "reads_as", "state", "cancellation", moment("state_since"))
    list_filter = (
        BoardFilter,
        "state",
        "cancellation",
        ConnectorFilter,
        "contradictory",
        "doubled",
        "created_at",
        "state_since",
    )
    list_select_related = ("task", "compensates")
    search_fields = ("key", "=ref", "=idempotency_key", "=id", "action", "task__title")
    fields = (
        "task",
        "action",
        "connector",
        "key",
        "incarnation",
        "compensates",
        "summary",
        "reads_as",
        "evidence",
        "cancelling",
        "limit",
        "next_step",
        "provider",
        "progress",
        "jobs",
        "settled",
        "undoing",
        "state",
        moment("state_since"),
        "cancellation",
        "contradictory",
        "doubled",
        "ref",
        "idempotency_key",
        "attempts",
        moment("lease_until"),
        moment("resend_until"),
        moment("due_at"),
        moment("follow_up_at"),
        "follow_ups",
        moment("created_at"),
    )
    inlines = (AttemptInline, ReceiptInline, DecisionInline, CallInline)

    @admin.display(description=_("operation"), ordering="pk")
    def name(self, operation: Operation) -> str:
        return short(operation)

    @admin.display(description=_("task"), ordering="task")
    def task_link(self, operation: Operation) -> SafeString | str:
        return self.link(operation.task)

    @admin.display(description=_("reads as"))
    def reads_as(self, operation: Operation) -> str:
        return reads_as(operation)

    @admin.display(description=_("evidence"))
    def evidence(self, operation: Operation) -> str:
        return told(operation).reading.evidence or "-"

    @admin.display(description=_("cancelling"))
    def cancelling(self, operation: Operation) -> str:
        return told(operation).reading.cancellation or "-"

    @admin.display(description=_("limit"))
    def limit(self, operation: Operation) -> str:
        return told(operation).reading.limit or "-"

    @admin.display(description=_("what can be done"))
    def next_step(self, operation: Operation) -> str:
        return told(operation).reading.next_step or "-"

    @admin.display(description=_("what its provider can do"))
    def provider(self, operation: Operation) -> SafeString:
        told = describe(connectors.capability(operation.connector, operation.action))
        return format_html_join(mark_safe("<br>"), "<b>{}:</b> {}", ((each.subject, each.text) for each in told))

    @admin.display(description=_("progress"))
    def progress(self, operation: Operation) -> str:
        progress = told(operation).progress
        return progress.text if progress is not None else "-"

    @admin.display(description=_("jobs"))
    def jobs(self, operation: Operation) -> SafeString | str:
        lines = [(job.ref, job.text) for job in told(operation).jobs]
        return format_html_join(mark_safe("<br>"), "<code>{}</code> {}", lines) or "-"

    @admin.display(description=_("settled by hand"))
    def settled(self, operation: Operation) -> str:
        settling = told(operation).settling
        return f"{settling.by}: {settling.outcome}. {settling.reason} {settling.since}".strip() if settling else "-"

    @admin.display(description=_("undoing"))
    def undoing(self, operation: Operation) -> str:
        undoing = told(operation).undoing
        return f"{undoing.text} {undoing.answer}".strip() if undoing else "-"

    def tools(self, request: HttpRequest, obj: Operation) -> Iterator[Tool]:
        if obj.attempts and follow_up.can_look_up(obj):
            yield Tool(gettext("Check now"), self.address("operation_check", obj.pk), button=True)
        yield from self.remedies(request, obj)
        yield from self.fact_tools(request, obj)
        kinds = (
            ("attempt", _("Attempts")),
            ("receipt", _("Receipts")),
            ("decision", _("Decisions")),
            ("call", _("Calls")),
        )
        for name, label in kinds:
            yield Tool(str(label), f"{self.address(f'{name}_changelist')}?operation__exact={obj.pk}")

    def get_urls(self) -> list[URLPattern]:
        check = non_atomic(self.admin_site.admin_view(self.check_view))
        desk = self.admin_site.admin_view(self.desk_view)
        connectors_page = self.admin_site.admin_view(self.connectors_view)
        return [
            path("<int:pk>/check/", check, name="agentstop_operation_check"),
            path("desk/", desk, name="agentstop_desk"),
            path("connectors/", connectors_page, name="agentstop_connectors"),
            *super().get_urls(),
        ]

    def desk_view(self, request: HttpRequest) -> HttpResponse:
        """What waits for an operator, counted; each number leads to its rows."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {"title": gettext("Desk"), "lines": lines(request.user), "overdue": reconcile.overdue()}
        return self.page(request, "desk", context)

    def connectors_view(self, request: HttpRequest) -> HttpResponse:
        """What each configured connector can and cannot do about its effects."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.page(request, "connectors", {"title": gettext("Connectors"), "connectors": configured()})

    def check_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """POST asks the provider now what became of the operation, which has no effect there."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            asked = reconcile.look_up_now(pk, by=request.user)
        except TaskNotFound as error:
            raise Http404(str(error)) from error
        if asked:
            text = gettext("The provider was asked. What it answered is among the receipts.")
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = gettext("This provider cannot be asked about this operation. Nothing was sent.")
            self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(self.address("operation_change", pk))
