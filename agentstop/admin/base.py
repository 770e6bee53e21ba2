"""What all admin pages here share: they only show, they show the truth of now, and they say where nothing works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from agentstop import database, export, permissions, reconcile, settle
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Operation, Task
from agentstop.models.facts import Decided

IN_LIST = 80  # characters of a text that a table shows
CHUNK = 2000  # rows that are read at a time where all are
TYPES = {"csv": "text/csv", "json": "application/json"}
ON_PAGE = 100  # rows of one kind that an object's page shows; its tool links lead to the others


@dataclass(frozen=True, slots=True)
class Tool:
    """A link on an object's page, or a button where following it changes something."""

    label: str
    url: str
    button: bool = False


class FreshList(ChangeList):
    """A list whose operations are brought up to this moment, in a fixed number of queries."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows: list[Any] = list(self.result_list)
        _freshen(rows)
        self.result_list = rows  # read as a sequence only, since nothing is editable


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's class takes no argument when it runs
    """Lists and shows rows to whoever may view them and their tasks; nobody adds, changes or deletes here."""

    actions: Any = ("export_rows",)
    actions_selection_counter = True
    list_per_page = 50
    show_full_result_count = False
    ordering = ("-pk",)
    list_select_related: ClassVar[tuple[str, ...]] = ()
    to_task: ClassVar[tuple[str, ...]] = ("task",)  # the attributes that lead from a row to its task

    class Media:
        css = {"all": ["agentstop/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = super().get_queryset(request).using(database.alias())
        if self.to_task or self.model is Task:
            rows = permissions.narrowed(request.user, rows, "__".join(self.to_task))
        return rows.select_related(*self.list_select_related) if self.list_select_related else rows

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FreshList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        _freshen([found])
        return found

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if not super().has_view_permission(request) or not request.user.has_perm("agentstop.view_task"):
            return False
        return obj is None or permissions.may(request.user, "view_task", self.task_of(obj))

    def task_of(self, row: Any) -> Task:
        for name in self.to_task:
            row = getattr(row, name)
        return cast(Task, row)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"overdue": reconcile.overdue(), **(extra_context or {})})

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        context |= {"overdue": reconcile.overdue(), "tools": list(self.tools(request, obj))}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def page(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        """A page of agentstop's own within the admin: the template of that name below `admin/agentstop/`."""
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "media": self.media}
        request.current_app = self.admin_site.name  # read by the url tag
        return TemplateResponse(request, f"admin/agentstop/{name}.html", {**shared, **context})

    @admin.action(description=_("Export selected rows (CSV)"), permissions=["view"])
    def export_rows(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> StreamingHttpResponse:
        """The rows that this person may view, in order and as the list shows them, without the texts of results."""
        rows = (row for row in queryset.iterator(CHUNK) if self.has_view_permission(request, row))
        return download(export.table(self.model, _fresh(rows)), "csv", self.opts.model_name)

    def tools(self, request: HttpRequest, obj: Any) -> Iterable[Tool]:
        """What stands at the top of an object's page."""
        return ()

    def address(self, name: str, *args: Any) -> str:
        """The URL of an admin page: `task_change`, `operation_changelist`."""
        return reverse(f"admin:agentstop_{name}", args=args, current_app=self.admin_site.name)

    def link(self, row: models.Model | None) -> SafeString | str:
        if row is None:
            return "-"
        return format_html('<a href="{}">{}</a>', self.address(f"{row._meta.model_name}_change", row.pk), short(row))


def _freshen(rows: Iterable[Any]) -> None:
    settle.fresh([row for row in rows if isinstance(row, Operation)])


def _fresh(rows: Iterator[Any]) -> Iterator[Any]:
    while chunk := list(islice(rows, CHUNK)):
        _freshen(chunk)
        yield from chunk


def download(lines: Iterable[str], kind: str, name: str | None) -> StreamingHttpResponse:
    """A file to be saved, sent as it is made."""
    response = StreamingHttpResponse(lines, content_type=f"{TYPES[kind]}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="agentstop-{name}.{kind}"'
    return response


def moment(name: str) -> Any:  # the stubs know callables only in lists, Django in fields too
    """A column of times to the millisecond: Django's own formats end at the minute, and facts are closer together."""

    def show(row: Any) -> str:
        value = getattr(row, name)
        if value is None:
            return "-"
        return timezone.localtime(value).replace(tzinfo=None).isoformat(" ", "milliseconds")

    show.__name__ = name
    return admin.display(show, description=_(name.replace("_", " ")), ordering=name)


def short(text: object, length: int = IN_LIST) -> str:
    """The beginning of a text on one line, for tables."""
    line = " ".join(str(text)[: 4 * length].split())
    return line if len(line) <= length else line[: length - 1] + "…"


def keep_denied(user: Any, tasks: Iterable[Task], permission: str, verb: Decided, reason: str = "") -> None:
    """Keep what somebody tried who does not come into these pages, for each of the tasks that they may not do it to."""
    for task in tasks:
        with suppress(Denied, TaskNotFound):
            permissions.require(user, permission, task, verb, reason=reason)


def non_atomic(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The view, left out of ATOMIC_REQUESTS: what it calls commits before it answers."""
    return transaction.non_atomic_requests(using=database.alias())(view)
