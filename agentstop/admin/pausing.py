"""Pause, Resume and New run at the desk: of many tasks from the list, of one from its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from agentstop import per_task, permissions, starting
from agentstop.admin.base import ReadOnlyAdmin, Tool, keep_denied, non_atomic
from agentstop.exceptions import Denied, Paused, Superseded, TaskNotFound
from agentstop.holds import open_causes
from agentstop.models import Task
from agentstop.models.facts import Decided
from agentstop.pause import pause, resume
from agentstop.states import TaskState
from agentstop.words import family_words

SAID = {
    "pause": {
        True: ngettext_lazy("%(count)d task is paused.", "%(count)d tasks are paused.", "count"),
        False: ngettext_lazy(
            "%(count)d was paused already, or is over.", "%(count)d were paused already, or are over.", "count"
        ),
    },
    "resume": {
        True: ngettext_lazy("%(count)d task was resumed.", "%(count)d tasks were resumed.", "count"),
        False: ngettext_lazy(
            "%(count)d was not paused by itself.", "%(count)d were not paused by themselves.", "count"
        ),
    },
}
FAILED = ngettext_lazy("%(count)d was not changed: %(why)s", "%(count)d were not changed: %(why)s", "count")
NEEDS = {
    "pause": ("pause_task", Decided.PAUSE),
    "resume": ("pause_task", Decided.RESUME),
    "new-run": ("start_run", Decided.START),
}
VERBS: dict[str, Callable[..., bool]] = {"pause": pause, "resume": resume}


class PausesTasks(ReadOnlyAdmin):
    """The actions and buttons by which tasks are paused, resumed and begun again."""

    def get_urls(self) -> list[URLPattern]:
        own = [
            path(f"<path:object_id>/{name}/", self._view(name, do), name=f"agentstop_task_{name.replace('-', '_')}")
            for name, do in (("pause", self._pause), ("resume", self._resume), ("new-run", self._new_run))
        ]
        return [*own, *super().get_urls()]

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("agentstop.pause_task")

    @admin.action(description=_("Pause selected tasks"), permissions=["pause"])
    def pause_tasks(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._each(request, list(queryset), "pause")

    @admin.action(description=_("Resume selected tasks"), permissions=["pause"])
    def resume_tasks(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._each(request, list(queryset), "resume")

    def controls(self, request: HttpRequest, task: Task) -> Iterator[Tool]:
        """The buttons that do something now."""
        if permissions.may(request.user, "pause_task", task):
            own = open_causes(task.pk).exclude(cause__isnull=False).exists() and task.state == TaskState.PAUSED
            if task.state in (TaskState.ACTIVE, TaskState.PAUSED) and not own:
                yield Tool(gettext("Pause"), self.address("task_pause", task.pk), button=True)
            if own:
                yield Tool(gettext("Resume"), self.address("task_resume", task.pk), button=True)
        startable = starting.can_start() and task.state != TaskState.PAUSED
        if startable and permissions.may(request.user, "start_run", task):
            address = f"{self.address('task_new_run', task.pk)}?run={task.last_run}"
            yield Tool(gettext("New run"), address, button=True)

    def _view(self, name: str, do: Callable[[HttpRequest, Task], None]) -> Callable[..., HttpResponse]:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            task = self.get_object(request, object_id)
            if task is None or not self.has_view_permission(request, task):
                if task is not None:
                    keep_denied(request.user, [task], *NEEDS[name])
                self.message_user(request, gettext("No such task. Nothing was changed."), messages.ERROR)
                return HttpResponseRedirect(self.address("task_changelist"))
            do(request, task)
            return HttpResponseRedirect(self.address("task_change", task.pk))

        return non_atomic(self.admin_site.admin_view(view))

    def _pause(self, request: HttpRequest, task: Task) -> None:
        self._each(request, [task], "pause")

    def _resume(self, request: HttpRequest, task: Task) -> None:
        self._each(request, [task], "resume")

    def _new_run(self, request: HttpRequest, task: Task) -> None:
        seen = request.GET.get("run", "")
        if not (seen.isascii() and seen.isdigit() and len(seen) < 10):
            self.message_user(request, gettext("The address names no run. Nothing was begun."), messages.ERROR)
            return
        try:
            starting.start(task.pk, by=request.user, run=int(seen))
        except (Superseded, Paused, starting.NotStarted, Denied, TaskNotFound) as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            self.message_user(request, gettext(family_words.BEGUN_NOW), messages.SUCCESS)

    def _each(self, request: HttpRequest, tasks: Sequence[Task], verb: str) -> None:
        """Each by itself; what became of them is told in one line for each kind of answer."""
        answers = per_task.each(tasks, lambda task: VERBS[verb](task.pk, by=request.user))
        done = Counter(answer.report for answer in answers if answer.report is not None)
        for changed, level in ((True, messages.SUCCESS), (False, messages.INFO)):
            if done[changed]:
                self.message_user(request, str(SAID[verb][changed] % {"count": done[changed]}), level)
        failed = Counter(str(answer.error) for answer in answers if answer.error is not None)
        for why, count in failed.items():
            self.message_user(request, str(FAILED % {"count": count, "why": why}), messages.ERROR)
