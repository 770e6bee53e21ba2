"""Tasks, their runs and links, and the Stop that asks first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop import permissions
from agentstop.admin.base import ReadOnlyAdmin, Tool, keep_denied, moment, non_atomic
from agentstop.admin.exporting import TellsFacts
from agentstop.admin.filters import SilentRuns, SilentTasks
from agentstop.admin.inlines import DecisionOfTaskInline, InputInline, OperationInline, RunInline
from agentstop.admin.pausing import PausesTasks
from agentstop.admin.questions import QuestionInline
from agentstop.admin.stopping import StopForm, task_ids
from agentstop.models import Run, ServingLink, Task
from agentstop.models.facts import Decided
from agentstop.reports.bulk_report import Choice, counts_of, stop_named, with_open
from agentstop.states import TaskState


@admin.register(Task)
class TaskAdmin(TellsFacts, PausesTasks):
    to_task = ()
    list_display = ("title", "owner", "state", moment("state_since"), "live_run", "open_operations")
    list_filter = ("state", SilentTasks, "detached", "created_at")
    list_select_related = ("owner", "stopped_by", "stop_decision", "subject_type", "family")
    date_hierarchy = "created_at"
    fields = (
        "title",
        "owner",
        "state",
        moment("state_since"),
        "live_run",
        "last_run",
        moment("stopped_at"),
        "stopped_by",
        "stop_reason",
        "subject_type",
        "subject_id",
        "detached",
        "on_its_own",
        moment("created_at"),
    )
    inlines = (RunInline, InputInline, OperationInline, QuestionInline, DecisionOfTaskInline)
    actions = ("stop_tasks", "pause_tasks", "resume_tasks", "export_rows")
    facts_about = ("decision", "attempt", "receipt", "call", "input", "question")

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return ("title", "=id", f"owner__{get_user_model().USERNAME_FIELD}", "=subject_id")

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return with_open(super().get_queryset(request))

    @admin.display(description=_("open operations"), ordering="still_open")
    def open_operations(self, task: Any) -> int:
        count: int = task.still_open
        return count

    def tools(self, request: HttpRequest, obj: Task) -> Iterator[Tool]:
        if obj.state != TaskState.STOPPED and permissions.may(request.user, "stop_task", obj):
            yield Tool(gettext("Stop…"), f"{self.address('task_stop')}?task={obj.pk}")
        yield from self.controls(request, obj)
        yield from _as_the_owner_reads_it(obj)
        yield from self.fact_tools(request, obj)
        for name, label in (
            ("run", _("Runs")),
            ("operation", _("Operations")),
            ("question", _("Questions")),
            ("decision", _("Decisions")),
        ):
            yield Tool(str(label), f"{self.address(f'{name}_changelist')}?task__exact={obj.pk}")

    def get_urls(self) -> list[URLPattern]:
        stop_view = non_atomic(self.admin_site.admin_view(self.stop_view))
        return [path("stop/", stop_view, name="agentstop_task_stop"), *super().get_urls()]

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agentstop.stop_task")

    @admin.action(description=_("Stop selected tasks"), permissions=["stop"])
    def stop_tasks(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> HttpResponse:
        return self._ask(request, list(queryset))

    def stop_view(self, request: HttpRequest) -> HttpResponse:
        """GET asks about one task, POST stops what was confirmed, each task by itself."""
        if not self.has_view_permission(request):
            self._keep_denied(request)
            return self._nothing_selected(request)
        if request.method != "POST":
            return self._ask(request, self._tasks(request, task_ids(request.GET.get("task", ""))))
        form = StopForm(request.POST)
        if form.is_valid():
            answers = stop_named(form.cleaned_data["tasks"], request.user, form.cleaned_data["reason"])
            context = {"title": gettext("What became of them"), "answers": answers, "counts": counts_of(answers)}
            return self.page(request, "task/stopped", context)
        return self._ask(request, self._tasks(request, form.chosen()), form)

    def _keep_denied(self, request: HttpRequest) -> None:
        form = StopForm(request.POST)
        if request.method == "POST" and form.is_valid():
            named, reason = self._tasks(request, form.chosen()), form.cleaned_data["reason"]
            keep_denied(request.user, named, "stop_task", Decided.STOP, reason)

    def _tasks(self, request: HttpRequest, ids: list[int]) -> list[Task]:
        return list(self.get_queryset(request).filter(pk__in=ids))

    def _ask(self, request: HttpRequest, tasks: list[Task], form: StopForm | None = None) -> HttpResponse:
        choice = Choice.of(request.user, tasks)
        if not tasks:
            return self._nothing_selected(request)
        form = form or StopForm(initial={"tasks": choice.value})
        return self.page(request, "task/stop", {"title": gettext("Stop these tasks?"), "choice": choice, "form": form})

    def _nothing_selected(self, request: HttpRequest) -> HttpResponse:
        self.message_user(
            request, gettext("No such task. Select tasks in the list; nothing was stopped."), messages.ERROR
        )
        return HttpResponseRedirect(self.address("task_changelist"))


def _as_the_owner_reads_it(task: Task) -> Iterator[Tool]:
    try:
        yield Tool(gettext("As its owner reads it"), reverse("agentstop:task", args=[task.pk]))
    except NoReverseMatch:  # the site does not include the pages of agentstop
        pass


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = (
        moment("began_at"),
        "task_link",
        "number",
        "state",
        "begun_by",
        moment("ended_at"),
        moment("seen_at"),
        moment("halted_at"),
    )
    list_filter = ("state", SilentRuns, "began_at")
    list_select_related = ("task", "begun_by")
    search_fields = ("task__title", "=task__id")
    fields = (
        "task",
        "number",
        "state",
        "begun_by",
        moment("began_at"),
        moment("ended_at"),
        moment("seen_at"),
        moment("halted_at"),
        "error",
    )

    @admin.display(description=_("task"), ordering="task")
    def task_link(self, run: Run) -> SafeString | str:
        return self.link(run.task)


@admin.register(ServingLink)
class ServingLinkAdmin(ReadOnlyAdmin):
    to_task = ("child",)
    list_display = ("id", "child_link", "parent_link", "parent_run", "key")
    list_select_related = ("child", "parent")
    search_fields = ("child__title", "parent__title", "=child__id", "=parent__id", "=key")
    fields = ("child", "parent", "parent_run", "key")

    @admin.display(description=_("child"), ordering="child")
    def child_link(self, link: ServingLink) -> SafeString | str:
        return self.link(link.child)

    @admin.display(description=_("parent"), ordering="parent")
    def parent_link(self, link: ServingLink) -> SafeString | str:
        return self.link(link.parent)
