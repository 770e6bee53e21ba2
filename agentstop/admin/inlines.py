"""Tables of facts on the page of what they are about: in order, the newest of them, in a fixed number of queries."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db import models
from django.db.models.functions import Substr
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agentstop import database, settle
from agentstop.admin.base import IN_LIST, ON_PAGE, moment, short
from agentstop.admin.reading import reads_as
from agentstop.folds.input_states import Became, InputFact, fold_input
from agentstop.models import Attempt, Call, Decision, Input, InputEvent, Operation, Receipt, Run
from agentstop.words.input_wording import read_input


class Newest(BaseInlineFormSet):  # type: ignore[type-arg]  # Django's class takes no argument when it runs
    """The last rows, oldest first; operations among them are brought up to this moment."""

    def get_queryset(self) -> models.QuerySet[Any]:
        if not hasattr(self, "_newest"):
            rows: models.QuerySet[Any] = super().get_queryset()
            # The inner rows are limited, and the outer ones keep their order.
            newest = rows.order_by("-pk").values("pk")[:ON_PAGE]
            self._newest = rows.filter(pk__in=newest).order_by("pk")
            settle.fresh([row for row in self._newest if isinstance(row, Operation)])
        return self._newest


class ReadOnlyInline(admin.TabularInline):  # type: ignore[type-arg]
    """Shown to whoever may view its rows."""

    formset = Newest
    extra = 0
    can_delete = False
    show_change_link = True
    select: ClassVar[tuple[str, ...]] = ()

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request).using(database.alias())
        return rows.select_related(*self.select) if self.select else rows

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields or ()

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class RunInline(ReadOnlyInline):
    model = Run
    fields = (
        "state",
        "begun_by",
        moment("began_at"),
        moment("ended_at"),
        moment("seen_at"),
        moment("halted_at"),
        "short_error",
    )
    select = ("begun_by",)

    @admin.display(description=_("error"))
    def short_error(self, run: Run) -> str:
        return short(run.error) or "-"


class OperationInline(ReadOnlyInline):
    model = Operation
    fields = ("reads_as", "state", moment("state_since"), "cancellation", "connector", "attempts", "short_ref")
    select = ("task",)

    @admin.display(description=_("reads as"))
    def reads_as(self, operation: Operation) -> str:
        return reads_as(operation)

    @admin.display(description=_("reference"))
    def short_ref(self, operation: Operation) -> str:
        return short(operation.ref) or "-"


class InputInline(ReadOnlyInline):
    """What people typed. Its words are the owner's: adding, releasing and withdrawing belong to the task's page."""

    model = Input
    fields = ("reads_as", "by", moment("at"), "beginning")
    select = ("by", "task")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request).defer("body")
        rows = rows.annotate(start=Substr("body", 1, 4 * IN_LIST))
        return rows.prefetch_related(models.Prefetch("events", InputEvent.objects.order_by("pk")))

    @admin.display(description=_("reads as"))
    def reads_as(self, row: Input) -> str:
        live = row.task.live_run
        facts = [InputFact(Became(event.became), event.run) for event in row.events.all()]
        reading = read_input(fold_input(facts, live), live=live is not None)
        return f"{reading.name}. {reading.evidence}"

    @admin.display(description=_("text"))
    def beginning(self, row: Any) -> str:
        return short(row.start) or "-"


class DecisionInline(ReadOnlyInline):
    model = Decision
    fields: ClassVar[tuple[Any, ...]] = (
        moment("at"),
        "decided_by",
        "run",
        "short_reason",
        "count",
        moment("until"),
        "detail",
    )
    select = ("by", "operation")

    @admin.display(description=_("by"))
    def decided_by(self, decision: Decision) -> str:
        return str(decision.by or decision.policy or "-")

    @admin.display(description=_("reason"))
    def short_reason(self, decision: Decision) -> str:
        return short(decision.reason) or "-"


class DecisionOfTaskInline(DecisionInline):
    fields = (moment("at"), "operation", *DecisionInline.fields[1:])


class AttemptInline(ReadOnlyInline):
    model = Attempt
    fields = ("run", moment("passed_at"), moment("lease_until"), "settling", "max_age", "sender")


class ReceiptInline(ReadOnlyInline):
    model = Receipt
    fields = (
        "attempt",
        moment("asked_at"),
        moment("seen_at"),
        "short_ref",
        "beginning",
        "size",
        "authoritative",
        moment("provider_at"),
    )
    select = ("attempt",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        # Bodies can be large: no more of them leaves the database than is shown.
        rows: models.QuerySet[Any] = super().get_queryset(request).defer("body")
        rows = rows.annotate(start=Substr("body", 1, 4 * IN_LIST))
        return rows

    @admin.display(description=_("reference"))
    def short_ref(self, receipt: Receipt) -> str:
        return short(receipt.ref) or "-"

    @admin.display(description=_("body"))
    def beginning(self, receipt: Any) -> str:
        return short(receipt.start) or "-"


class CallInline(ReadOnlyInline):
    model = Call
    fields = ("run", "outcome", moment("at"), moment("admitted_at"), "short_error")

    @admin.display(description=_("error"))
    def short_error(self, call: Call) -> str:
        return short(call.error) or "-"
