"""The facts, one list for each kind, and what runs have admitted."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db import models
from django.db.models.functions import Length, Substr
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop.admin.base import ReadOnlyAdmin, moment, short
from agentstop.bodies import Form
from agentstop.models import Attempt, Call, ContextEntry, Decision, Receipt
from agentstop.words.evidence_words import ERASED

BODY = 20_000  # characters of a body that its own page shows


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    list_display = (
        moment("at"),
        "verb",
        "effect",
        "task_link",
        "operation_link",
        "run",
        "decided_by",
        "short_reason",
        "count",
    )
    list_filter = ("verb", "effect", "at")
    list_select_related = ("task", "operation", "by")
    search_fields = ("task__title", "reason", "policy", "=task__id")
    fields = (
        "verb",
        "effect",
        "task",
        "operation",
        "question",
        "run",
        "by",
        "policy",
        "reason",
        "cause",
        moment("until"),
        "detail",
        "count",
        moment("at"),
    )

    @admin.display(description=_("task"), ordering="task")
    def task_link(self, decision: Decision) -> SafeString | str:
        return self.link(decision.task)

    @admin.display(description=_("operation"), ordering="operation")
    def operation_link(self, decision: Decision) -> SafeString | str:
        return self.link(decision.operation)

    @admin.display(description=_("by"))
    def decided_by(self, decision: Decision) -> str:
        return str(decision.by or decision.policy or "-")

    @admin.display(description=_("reason"))
    def short_reason(self, decision: Decision) -> str:
        return short(decision.reason) or "-"


class OfOperationAdmin(ReadOnlyAdmin):
    """A fact about an operation."""

    list_select_related: ClassVar[tuple[str, ...]] = ("operation__task",)
    to_task = ("operation", "task")
    search_fields: ClassVar[tuple[str, ...]] = ("operation__key", "operation__task__title", "=operation__id")

    @admin.display(description=_("operation"), ordering="operation")
    def operation_link(self, row: Any) -> SafeString | str:
        return self.link(row.operation)


@admin.register(Attempt)
class AttemptAdmin(OfOperationAdmin):
    list_display = (moment("passed_at"), "verb", "number", "operation_link", "run", moment("lease_until"), "sender")
    list_filter = ("verb", "passed_at")
    fields = (
        "operation",
        "verb",
        "number",
        "run",
        moment("passed_at"),
        moment("lease_until"),
        "settling",
        "max_age",
        "sender",
    )


@admin.register(Receipt)
class ReceiptAdmin(OfOperationAdmin):
    list_display = (
        moment("seen_at"),
        "claim",
        "source",
        "operation_link",
        moment("asked_at"),
        "short_ref",
        "size",
        "cut",
    )
    list_filter = ("claim", "source", "cut", "seen_at")
    list_select_related = ("operation__task", "attempt", "by")
    search_fields = ("=ref", *OfOperationAdmin.search_fields)
    fields = (
        "operation",
        "attempt",
        "claim",
        "source",
        moment("asked_at"),
        moment("seen_at"),
        moment("provider_at"),
        "authoritative",
        "by",
        "ref",
        "form",
        "size",
        "cut",
        "beginning",
    )

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return _with_beginning(super().get_queryset(request))

    @admin.display(description=_("reference"))
    def short_ref(self, receipt: Receipt) -> str:
        return short(receipt.ref) or "-"

    @admin.display(description=_("body"))
    def beginning(self, receipt: Any) -> SafeString | str:
        return _body(receipt)


@admin.register(Call)
class CallAdmin(OfOperationAdmin):
    list_display = (moment("at"), "outcome", "operation_link", "run", moment("admitted_at"), "short_error")
    list_filter = ("outcome", "at")
    fields = ("operation", "run", "outcome", "error", moment("admitted_at"), moment("at"))

    @admin.display(description=_("error"))
    def short_error(self, call: Call) -> str:
        return short(call.error) or "-"


@admin.register(ContextEntry)
class ContextEntryAdmin(ReadOnlyAdmin):
    list_display = (moment("at"), "task_link", "run", "operation_link")
    list_filter = ("at",)
    list_select_related = ("task", "call__operation")
    search_fields = ("task__title", "call__operation__key", "=task__id")
    fields = ("task", "run", "call", moment("at"), "form", "beginning")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return _with_beginning(super().get_queryset(request))

    @admin.display(description=_("task"), ordering="task")
    def task_link(self, entry: ContextEntry) -> SafeString | str:
        return self.link(entry.task)

    @admin.display(description=_("operation"))
    def operation_link(self, entry: ContextEntry) -> SafeString | str:
        return self.link(entry.call.operation)

    @admin.display(description=_("body"))
    def beginning(self, entry: Any) -> SafeString | str:
        return _body(entry)


def _with_beginning(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Bodies can be large: no more of them leaves the database than is shown."""
    cut: models.QuerySet[Any] = rows.defer("body").annotate(start=Substr("body", 1, BODY), length=Length("body"))
    return cut


def _body(row: Any) -> SafeString | str:
    if row.form == Form.ERASED:
        return gettext(ERASED)
    if not row.start:
        return "-"
    note = ""
    if row.length > BODY:
        note = gettext("The first %(shown)d of %(kept)d characters that are kept.")
        note %= {"shown": BODY, "kept": row.length}
    return format_html('<pre class="agentstop-body">{}</pre><p>{}</p>', row.start, note)
