"""Freezes, with what lifted them and what was denied; an operator holds and lifts here, after a question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop.admin.base import ReadOnlyAdmin, Tool, moment, non_atomic, short
from agentstop.admin.desk import FrozenNow
from agentstop.admin.freezing import FreezeForm, Question, holds, standing, title, with_end
from agentstop.exceptions import Denied
from agentstop.freeze import freeze, may_freeze, unfreeze
from agentstop.models import Freeze
from agentstop.reports import freeze_report
from agentstop.words import frozen_words


@admin.register(Freeze)
class FreezeAdmin(ReadOnlyAdmin):
    to_task = ()
    list_display = (moment("at"), "what", "standing", "decided_by", "short_reason", moment("until"))
    list_filter = (FrozenNow, "effect", "at")
    list_select_related = ("by", "owner", "lifts__owner")
    search_fields = ("connector", "action", "reason", "policy", "=id")
    fields = (
        "what",
        "standing",
        "decided_by",
        "reason",
        moment("at"),
        moment("in_force_at"),
        moment("until"),
        moment("lifted_at"),
        "lifts",
        "effect",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_end(super().get_queryset(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        views = request.user.has_perm("agentstop.view_freeze") and request.user.has_perm("agentstop.view_task")
        return views or may_freeze(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_freeze(request.user)

    @admin.display(description=_("what"))
    def what(self, row: Freeze) -> str:
        return short(title(row))

    @admin.display(description=_("standing"))
    def standing(self, row: Freeze) -> str:
        return standing(row)

    @admin.display(description=_("by"))
    def decided_by(self, row: Freeze) -> str:
        return freeze_report.by(row) or "-"

    @admin.display(description=_("reason"))
    def short_reason(self, row: Freeze) -> str:
        return short(row.reason) or "-"

    def tools(self, request: HttpRequest, obj: Freeze) -> Iterator[Tool]:
        if may_freeze(request.user) and holds(obj):
            yield Tool(gettext("Lift…"), self.address("freeze_lift", obj.pk))
        lifts = obj.lifts_id or obj.pk
        yield Tool(gettext("Lifts of it"), f"{self.address('freeze_changelist')}?lifts__exact={lifts}")

    def get_urls(self) -> list[URLPattern]:
        def view(function: Any) -> Any:
            return non_atomic(self.admin_site.admin_view(function))

        add = path("add/", view(self.freeze_view), name="agentstop_freeze_add")
        return [add, path("<int:pk>/lift/", view(self.lift_view), name="agentstop_freeze_lift"), *super().get_urls()]

    def freeze_view(self, request: HttpRequest) -> HttpResponse:
        """Ask what, then show what that means, then hold it. A press without the right is kept."""
        form = FreezeForm(request.POST or None)
        if not may_freeze(request.user):
            self._denied(request)
        if not form.is_valid():
            return self.page(request, "freeze/ask", {"title": gettext("Hold dispatch"), "form": form})
        if "confirmed" not in request.POST:
            question = Question.of(form.cleaned_data)
            return self.page(
                request, "freeze/confirm", {"title": gettext("Hold this?"), "form": form, "question": question}
            )
        made = freeze(**form.cleaned_data, by=request.user)
        self.message_user(request, freeze_report.tell(made).text, messages.SUCCESS)
        return HttpResponseRedirect(self.address("freeze_change", made.pk))

    def _denied(self, request: HttpRequest) -> None:
        if request.method == "POST":
            asked: dict[str, Any] = {name: request.POST.get(name, "") for name in ("connector", "action", "reason")}
            try:
                freeze(**asked, by=request.user)
            except Denied as error:
                raise PermissionDenied(str(error)) from error
        raise PermissionDenied

    def lift_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask first; a press without the right is kept."""
        row = self.get_queryset(request).filter(pk=pk, epoch__isnull=False).first()
        if row is None or not self.has_view_permission(request):
            raise Http404
        if request.method != "POST":
            if not may_freeze(request.user):
                raise PermissionDenied
            return self.page(
                request, "freeze/lift", {"title": gettext("Lift this freeze?"), "row": row, "what": title(row)}
            )
        try:
            lifted = unfreeze(row, by=request.user, reason=request.POST.get("reason", ""))
        except Denied as error:
            raise PermissionDenied(str(error)) from error
        text = frozen_words.LIFTED_NOW if lifted else frozen_words.WAS_OVER
        self.message_user(request, gettext(text), messages.SUCCESS if lifted else messages.WARNING)
        return HttpResponseRedirect(self.address("freeze_change", pk))
