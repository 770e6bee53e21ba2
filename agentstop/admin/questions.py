"""Questions to people: to be read, since they are answered where the task is shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from agentstop.admin.base import ReadOnlyAdmin, moment, short
from agentstop.admin.inlines import ReadOnlyInline
from agentstop.models import Question
from agentstop.question_facts import told, with_facts


class QuestionInline(ReadOnlyInline):
    model = Question
    fields = ("run", "short_text", "state", moment("asked_at"), moment("until"), "replied_by", moment("applied_at"))

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return with_facts(super().get_queryset(request))

    @admin.display(description=_("text"))
    def short_text(self, question: Question) -> str:
        return short(question.text)

    @admin.display(description=_("state"))
    def state(self, question: Any) -> str:
        return str(told(question, question.read_at).state)

    @admin.display(description=_("by"))
    def replied_by(self, question: Any) -> str:
        reply = told(question, question.read_at).reply
        return str(reply.by or "-") if reply is not None else "-"


@admin.register(Question)
class QuestionAdmin(ReadOnlyAdmin):
    list_display = (moment("asked_at"), "task_link", "run", "short_text", "state")
    list_filter = ("kind", "asked_at")
    list_select_related = ("task",)
    search_fields = ("task__title", "text", "=task__id")
    fields = (
        "task",
        "run",
        "key",
        "kind",
        "text",
        "choices",
        "operation",
        "connector",
        "action",
        "details",
        "state",
        moment("asked_at"),
        moment("until"),
        moment("applied_at"),
    )

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return with_facts(super().get_queryset(request))

    @admin.display(description=_("task"), ordering="task")
    def task_link(self, question: Question) -> SafeString | str:
        return self.link(question.task)

    @admin.display(description=_("text"))
    def short_text(self, question: Question) -> str:
        return short(question.text)

    @admin.display(description=_("state"))
    def state(self, question: Any) -> str:
        return str(told(question, question.read_at).state)
