"""Service tokens: made here and shown once, revoked here; what they were used for stands in the facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from agentstop import connectors, tokens
from agentstop.admin.base import ReadOnlyAdmin, Tool, moment, non_atomic
from agentstop.exceptions import Denied
from agentstop.models import ServiceToken
from agentstop.words import token_words


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's class takes no argument when it runs
    """What a token is for."""

    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=lambda: [(scope, gettext(text)) for scope, text in token_words.SCOPES.items()],
        widget=forms.CheckboxSelectMultiple,
    )
    connectors = forms.MultipleChoiceField(
        label=_("Connectors"),
        required=False,
        choices=lambda: [(tokens.ANY, gettext("any"))] + [(name, name) for name in connectors.names()],
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Whose operations its runs may send."),
    )

    class Meta:
        model = ServiceToken
        fields = ("application", "user", "scopes", "connectors", "until")
        labels = {"application": _("Application"), "user": _("Acts with the rights of"), "until": _("Until")}


@admin.register(ServiceToken)
class ServiceTokenAdmin(ReadOnlyAdmin):
    to_task = ()
    list_display = ("application", "name", "user", "scopes", moment("made_at"), moment("used_at"), moment("revoked_at"))
    list_select_related = ("user",)
    search_fields = ("application", "name")
    fields = (
        "application",
        "name",
        "user",
        "scopes",
        "connectors",
        "made_by",
        moment("made_at"),
        moment("until"),
        moment("used_at"),
        "revoked_by",
        moment("revoked_at"),
    )

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("agentstop.view_servicetoken")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("agentstop.add_servicetoken")

    def tools(self, request: HttpRequest, obj: ServiceToken) -> Iterator[Tool]:
        if obj.revoked_at is None and request.user.has_perm("agentstop.revoke_servicetoken"):
            yield Tool(gettext("Revoke"), self.address("servicetoken_revoke", obj.pk), button=True)

    def get_urls(self) -> list[URLPattern]:
        def view(function: Any) -> Any:
            return non_atomic(self.admin_site.admin_view(never_cache(function)))

        add = path("add/", view(self.make_view), name="agentstop_servicetoken_add")
        revoke = path("<int:pk>/revoke/", view(self.revoke_view), name="agentstop_servicetoken_revoke")
        return [add, revoke, *super().get_urls()]

    def make_view(self, request: HttpRequest) -> HttpResponse:
        """Ask what it is for, then show it, once."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = TokenForm(request.POST or None, initial={"user": request.user.pk})
        if form.is_valid():
            try:
                _, text = tokens.make(**form.cleaned_data, by=request.user)
            except Denied as error:
                form.add_error("user", str(error))
            else:
                return self.page(request, "token/made", {"title": gettext("Copy it now"), "token": text})
        return self.page(request, "token/make", {"title": gettext("Make a service token"), "form": form})

    def revoke_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """From the next request on it lets nobody in."""
        row = self.get_queryset(request).filter(pk=pk).first()
        if row is None or request.method != "POST":
            raise Http404
        try:
            tokens.revoke(row, by=request.user)
        except Denied as error:
            raise PermissionDenied(str(error)) from error
        self.message_user(request, gettext(token_words.REVOKED), messages.SUCCESS)
        return HttpResponseRedirect(self.address("servicetoken_change", pk))
