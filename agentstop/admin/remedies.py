"""Check, Settle and Undo at the desk: of many operations from the list, of one from its page; each asks first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop import permissions
from agentstop.admin.base import ReadOnlyAdmin, Tool, keep_denied, non_atomic
from agentstop.admin.reading import reads_as, told
from agentstop.admin.remedying import FORMS, REASON, RemedyForm, SettleForm, UndoForm
from agentstop.admin.stopping import task_ids
from agentstop.models import Operation
from agentstop.models.facts import Decided
from agentstop.reports import remedy_report
from agentstop.reports.bulk_report import pairs_of
from agentstop.reports.remedy_report import Choice, Remedy
from agentstop.words import remedy_words, sentences


class RemediesOperations(ReadOnlyAdmin):
    """The actions and links by which operations are checked, settled and undone."""

    actions: Any = ("check_operations", "settle_operations", "undo_operations", "export_rows")

    def get_urls(self) -> list[URLPattern]:
        own = [path(f"{remedy}/", self._view(remedy), name=f"agentstop_operation_{remedy}_many") for remedy in Remedy]
        return [*own, *super().get_urls()]

    def _view(self, remedy: Remedy) -> Any:
        return non_atomic(self.admin_site.admin_view(partial(self.remedy_view, remedy=remedy)))

    def has_settle_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agentstop.settle_operation")

    def has_compensate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agentstop.compensate_operation")

    @admin.action(description=_("Check selected operations now"), permissions=["view"])
    def check_operations(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse:
        return self._ask(request, Remedy.CHECK, queryset)

    @admin.action(description=_("Settle selected operations by hand"), permissions=["settle"])
    def settle_operations(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse:
        return self._ask(request, Remedy.SETTLE, queryset)

    @admin.action(description=_("Undo selected operations"), permissions=["compensate"])
    def undo_operations(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse:
        return self._ask(request, Remedy.UNDO, queryset)

    def remedies(self, request: HttpRequest, operation: Operation) -> Iterator[Tool]:
        """What a person may do about this one, where it would do something."""
        reading, task = told(operation), operation.task
        if reading.can_settle and permissions.may(request.user, "settle_operation", task):
            yield Tool(gettext("Settle by hand…"), self._address(Remedy.SETTLE, operation))
        if reading.way_to_undo is not None and permissions.may(request.user, "compensate_operation", task):
            yield Tool(gettext("Undo…"), self._address(Remedy.UNDO, operation))

    def _address(self, remedy: Remedy, operation: Operation) -> str:
        return f"{self.address(f'operation_{remedy}_many')}?operation={operation.pk}"

    def remedy_view(self, request: HttpRequest, remedy: Remedy) -> HttpResponse:
        """GET asks about one operation, POST does what was confirmed, to each by itself."""
        if not self.has_view_permission(request):
            if request.method == "POST":
                self._keep_denied(request, remedy)
            raise Http404
        if request.method != "POST":
            return self._ask(request, remedy, self._rows(request, task_ids(request.GET.get("operation", ""))))
        form = FORMS[remedy](request.POST)
        form.is_valid()
        named = form.named()
        if remedy is Remedy.SETTLE:  # it has fields for each of the operations that are named
            form = SettleForm(request.POST, rows=list(self._rows(request, list(named))))
        if not form.is_valid():
            return self._ask(request, remedy, self._rows(request, list(named)), form)
        return self._became(request, remedy, _do(remedy, form, request.user))

    def _keep_denied(self, request: HttpRequest, remedy: Remedy) -> None:
        named = self._rows(request, list(pairs_of(request.POST.get("operations", ""))))
        tasks = {row.task for row in named}
        reason = request.POST.get("reason", "")[:REASON]
        keep_denied(request.user, tasks, remedy_report.PERMISSIONS[remedy], VERBS[remedy], reason)

    def _rows(self, request: HttpRequest, ids: list[int]) -> models.QuerySet[Any]:
        return self.get_queryset(request).filter(pk__in=ids)

    def _ask(
        self, request: HttpRequest, remedy: Remedy, rows: models.QuerySet[Any], form: RemedyForm | None = None
    ) -> HttpResponse:
        choice = Choice.of(request.user, remedy, rows)
        if not choice.found:
            text = gettext("No such operation. Select operations in the list; nothing was done.")
            self.message_user(request, text, messages.ERROR)
            return HttpResponseRedirect(self.address("operation_changelist"))
        if form is None:
            initial = {"operations": choice.value}
            settles = remedy is Remedy.SETTLE
            form = SettleForm(initial=initial, rows=choice.operations) if settles else FORMS[remedy](initial=initial)
        context = {
            "title": gettext(remedy_words.QUESTIONS[remedy]),
            "button": gettext(remedy_words.BUTTONS[remedy]),
            "choice": choice,
            "form": form,
            "address": self.address(f"operation_{remedy}_many"),
            "reads": [(each, reads_as(each)) for each in choice.listed],
            "same_for_all": gettext(remedy_words.SAME_FOR_ALL),
            "notes": [gettext(text) for text in NOTES[remedy]],
        }
        return self.page(request, "operation/ask", context)

    def _became(self, request: HttpRequest, remedy: Remedy, answers: list[remedy_report.Told]) -> HttpResponse:
        context = {
            "title": gettext("What became of them"),
            "counts": remedy_report.counts_of(answers),
            "answers": [(each, reads_as(each.operation) if each.operation else "-") for each in answers],
        }
        return self.page(request, "operation/became", context)


VERBS = {Remedy.CHECK: Decided.LOOK_UP, Remedy.SETTLE: Decided.SETTLE, Remedy.UNDO: Decided.COMPENSATE}
NOTES = {
    Remedy.CHECK: (),
    Remedy.SETTLE: (sentences.WORD_OF_A_PERSON,),
    Remedy.UNDO: (sentences.STAYS_DONE,),
}


def _do(remedy: Remedy, form: RemedyForm, by: Any) -> list[remedy_report.Told]:
    named = form.named()
    if isinstance(form, SettleForm):
        return remedy_report.settle_each(named, by, form.said)
    if isinstance(form, UndoForm):
        return remedy_report.undo(named, by, form.cleaned_data["reason"])
    return remedy_report.check(named, by)
