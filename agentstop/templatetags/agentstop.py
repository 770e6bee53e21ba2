"""`{% agentstop_panel task %}`, `{% agentstop_tasks tasks %}`, `{% agentstop_timeline task %}`: for a host's pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from agentstop import panel
from agentstop.exceptions import TaskNotFound
from agentstop.listing import Asked
from agentstop.models import Task
from agentstop.reports import report
from agentstop.reports.controls import Controls
from agentstop.reports.role import Role
from agentstop.timeline import drawing
from agentstop.words import clock_words

register = template.Library()

NOTHING = SafeString()
FOLDED = 1000  # characters; people type no more on these pages


@register.simple_tag(takes_context=True)
def agentstop_panel(context: dict[str, Any], task: Task | int, live: bool = True, heading: int = 2) -> SafeString:
    """The panel of a task as the request's user may see it; nothing where they may not.

    `heading` is the level of its title in the page: 1 where the page is about this task alone.
    `live=False` leaves the websocket out, for hosts without Channels: the panel then says that it is not live.
    """
    request: HttpRequest = context["request"]
    task_id = task if isinstance(task, int) else task.pk
    try:
        shown = panel.context(task_id, request.user, next_page=request.get_full_path(), live=live)
    except TaskNotFound:
        return mark_safe("")
    return render_to_string("agentstop/panel.html", {**shown, "heading": int(heading)}, request)


@register.simple_tag(takes_context=True)
def agentstop_tasks(context: dict[str, Any], tasks: Iterable[Task], live: bool = True) -> SafeString:
    """A list of these tasks, without those that the request's user may not see; each links to its page."""
    request: HttpRequest = context["request"]
    rows = report.load_all(list(tasks), request.user)
    shown = panel.list_context(rows, next_page=request.get_full_path(), live=live)
    return render_to_string("agentstop/tasks.html", shown, request)


@register.simple_tag(takes_context=True)
def agentstop_list(context: dict[str, Any], live: bool = True, heading: int = 2) -> SafeString:
    """All tasks that the request's user may see, with filters, search, pages and stopping many at once.

    It reads `show`, `q`, `before` and `after` of the page's own address.
    """
    request: HttpRequest = context["request"]
    asked = Asked.of(request.GET)
    shown = panel.found_context(request.user, asked, next_page=request.get_full_path(), live=live)
    return render_to_string("agentstop/fragments/list.html", {**shown, "heading": int(heading)}, request)


@register.simple_tag(takes_context=True)
def agentstop_timeline(context: dict[str, Any], task: Task | int, heading: int = 2) -> SafeString:
    """The timeline of a task as the request's user may see it; nothing where they may not."""
    request: HttpRequest = context["request"]
    try:
        shown = drawing.context(task if isinstance(task, int) else task.pk, request.user)
    except TaskNotFound:
        return mark_safe("")
    return render_to_string("agentstop/fragments/timeline.html", {**shown, "heading": int(heading)}, request)


@register.filter
def agentstop_id(task_id: int) -> str:
    """The beginning of all ids in a task's panel."""
    return panel.prefix(task_id)


@register.filter
def agentstop_why_not(controls: Controls, role: Role) -> str:
    """Why what this reader might press does nothing now."""
    return controls.why_not(role)


@register.filter
def agentstop_folded(text: str) -> str:
    """As much of what somebody wrote as stands in a panel; exports and the admin have all of it."""
    return text if len(text) <= FOLDED else f"{text[:FOLDED]} {gettext('… (it goes on)')}"


@register.filter
def agentstop_clock(when: datetime) -> str:
    """The time of day in the reader's zone; with the date where it is not today."""
    local = timezone.localtime(when)
    today = local.date() == timezone.localdate()
    return date_format(local, gettext(clock_words.TODAY if today else clock_words.ANOTHER_DAY))


@register.filter
def agentstop_time(when: datetime) -> SafeString:
    """The same as an element that holds the exact moment, and tells it in full."""
    return _time(
        when, agentstop_clock(when), format_html(" {}", "data-agentstop-time")
    )  # how long ago that is, a script says beside it


@register.filter
def agentstop_moment(when: datetime) -> SafeString:
    """The date and the time of day to the millisecond, in the reader's zone: facts are closer together than seconds."""
    local = timezone.localtime(when)
    return _time(when, f"{date_format(local, gettext(clock_words.TO_THE_SECOND))}.{local.microsecond // 1000:03}")


def _time(when: datetime, shown: str, more: SafeString = NOTHING) -> SafeString:
    full = date_format(timezone.localtime(when), gettext(clock_words.IN_FULL))
    return format_html('<time datetime="{}" title="{}"{}>{}</time>', when.isoformat(), full, more, shown)
