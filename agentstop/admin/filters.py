"""Filters of the lists that no single column answers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop import database, silence
from agentstop.models import Task
from agentstop.states import RunState

SILENT = "silent"


class SilentTasks(admin.SimpleListFilter):
    """Tasks whose run is live, and whose agent has given no sign of life for a while."""

    title = _("sign of life")
    parameter_name = "agent"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(SILENT, gettext("none for a while"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.only(queryset) if self.value() == SILENT else queryset

    def only(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return silence.silent(rows)


class SilentRuns(SilentTasks):
    """The live runs of those tasks."""

    def only(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        tasks = silence.silent(Task.objects.using(database.alias()))
        return rows.filter(state=RunState.LIVE, task__in=tasks)
