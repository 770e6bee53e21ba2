"""All facts of a task or an operation in the order in which they happened, to be read and to be saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext

from agentstop import export
from agentstop.admin.base import ON_PAGE, ReadOnlyAdmin, Tool, download
from agentstop.models import Operation, Task


class TellsFacts(ReadOnlyAdmin):
    """The page of an object's facts, and the files: for whoever may view every kind of fact that is on it."""

    facts_about: ClassVar[tuple[str, ...]] = ()  # the models that are told of

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.facts_view)
        name = f"agentstop_{self.opts.model_name}_facts"
        return [path("<path:object_id>/facts/", view, name=name), *super().get_urls()]

    def may_read_facts(self, request: HttpRequest) -> bool:
        return all(request.user.has_perm(f"agentstop.view_{model}") for model in self.facts_about)

    def fact_tools(self, request: HttpRequest, obj: Any) -> Iterator[Tool]:
        if self.may_read_facts(request):
            yield Tool(gettext("All facts"), self.address(f"{self.opts.model_name}_facts", obj.pk))

    def facts_view(self, request: HttpRequest, object_id: str) -> HttpResponse | StreamingHttpResponse:
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        if not self.has_view_permission(request, row) or not self.may_read_facts(request):
            raise PermissionDenied
        found = _facts(row)
        if request.GET.get("format") == "csv":
            lines = export.lines(export.COLUMNS, (fact.values() for fact in found))
            return download(lines, "csv", f"{self.opts.model_name}-{row.pk}")
        if request.GET.get("format") == "json":
            return download(_json(row, found), "json", f"{self.opts.model_name}-{row.pk}")
        pages = Paginator(found, ON_PAGE).get_page(request.GET.get("page"))
        context = {"title": gettext("All facts of %(what)s") % {"what": row}, "row": row, "pages": pages}
        return self.page(request, "facts", context)


def _facts(row: Task | Operation) -> list[dict[str, Any]]:
    return export.facts(row.task, operation=row.pk) if isinstance(row, Operation) else export.facts(row)


def _json(row: Task | Operation, facts: list[dict[str, Any]]) -> Iterator[str]:
    named = {row._meta.model_name: row.pk, "title": str(row), "state": row.state}
    yield json.dumps({**named, "facts": facts}, indent=2, ensure_ascii=False)
