"""The tags for a host's pages: `{% agentstop_panel task %}`, `{% agentstop_stop_button task %}`,
`{% agentstop_list %}`, `{% agentstop_tasks tasks %}`, `{% agentstop_timeline task %}`.

`task` is a task, its id, or an object of the host's that tasks are about: of these then the newest that the reader may
see. `live=False` asks every few seconds instead of opening a websocket, as WSGI sites do by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.wsgi import WSGIRequest
from django.db.models import Model
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from agentstop import database, listing, panel, permissions
from agentstop.exceptions import TaskNotFound
from agentstop.listing import Asked
from agentstop.models import Task
from agentstop.reports import report
from agentstop.reports.controls import Controls
from agentstop.reports.role import Role
from agentstop.timeline import drawing
from agentstop.words import clock_words

register = template.Library()

About = Task | int | Model
NOTHING = SafeString()
FOLDED = 1000  # characters; people type no more on these pages


@register.simple_tag(takes_context=True)
def agentstop_panel(context: dict[str, Any], task: About, live: bool = True, heading: int = 2) -> SafeString:
    """The panel of a task as the request's user may see it; nothing where they may not.

    `heading` is the level of its title in the page: 1 where the page is about this task alone.
    """
    request = _request(context)
    try:
        task_id = _which(task, request.user)
        shown = panel.context(task_id, request.user, next_page=request.get_full_path(), live=_live(request, live))
    except TaskNotFound:
        return NOTHING
    return render_to_string("agentstop/panel.html", {**shown, "heading": int(heading)}, request)


@register.simple_tag(takes_context=True)
def agentstop_stop_button(context: dict[str, Any], task: About, live: bool = True) -> SafeString:
    """The Stop button of a task alone, with one line that tells how the task stands; nothing for strangers."""
    request = _request(context)
    try:
        task_id = _which(task, request.user)
        here = request.get_full_path()
        shown = panel.button_context(task_id, request.user, next_page=here, live=_live(request, live))
    except TaskNotFound:
        return NOTHING
    return render_to_string("agentstop/stop_button.html", shown, request)


@register.simple_tag(takes_context=True)
def agentstop_tasks(context: dict[str, Any], tasks: Iterable[Task], live: bool = True) -> SafeString:
    """A list of these tasks, without those that the request's user may not see; each links to its page."""
    request = _request(context)
    rows = report.load_all(list(tasks), request.user)
    shown = panel.list_context(rows, next_page=request.get_full_path(), live=_live(request, live))
    return render_to_string("agentstop/tasks.html", shown, request)


@register.simple_tag(takes_context=True)
def agentstop_list(
    context: dict[str, Any], subject: Model | None = None, live: bool = True, heading: int = 2
) -> SafeString:
    """All tasks that the request's user may see, with filters, search, pages and stopping many at once.

    It reads `show`, `q`, `before` and `after` of the page's own address. With `subject`: the newest of the tasks about
    that object of the host's, without all this.
    """
    if subject is not None:
        about = Task.objects.using(database.alias()).of(subject).order_by("-pk")
        return agentstop_tasks(context, about[: listing.SIZE], live)
    request = _request(context)
    asked = Asked.of(request.GET)
    shown = panel.found_context(request.user, asked, next_page=request.get_full_path(), live=_live(request, live))
    return render_to_string("agentstop/fragments/list.html", {**shown, "heading": int(heading)}, request)


@register.simple_tag(takes_context=True)
def agentstop_timeline(context: dict[str, Any], task: About, heading: int = 2) -> SafeString:
    """The timeline of a task as the request's user may see it; nothing where they may not."""
    request = _request(context)
    try:
        shown = drawing.context(_which(task, request.user), request.user)
    except TaskNotFound:
        return NOTHING
    return render_to_string("agentstop/fragments/timeline.html", {**shown, "heading": int(heading)}, request)


def _request(context: dict[str, Any]) -> HttpRequest:
    request = context.get("request")
    if not isinstance(request, HttpRequest):
        raise ImproperlyConfigured(
            "The tags of agentstop need the request: render the template with it, and add "
            '"django.template.context_processors.request" to the context_processors of TEMPLATES.'
        )
    return request


def _live(request: HttpRequest, live: bool) -> bool:
    """Whether to try a websocket: where this page came by WSGI nothing answers one."""
    return live and not isinstance(request, WSGIRequest)


def _which(task: About, user: Any) -> int:
    """Of a host's own object the newest task that this user may see; TaskNotFound where there is none."""
    if isinstance(task, Task | int):
        return task if isinstance(task, int) else task.pk
    if not isinstance(task, Model):
        raise TaskNotFound(f"{task!r} is neither a task, nor its id, nor an object that tasks are about.")
    about = Task.objects.using(database.alias()).of(task).order_by("-pk")
    for each in about.iterator(chunk_size=50):
        if permissions.may(user, "view_task", each):
            return each.pk
    raise TaskNotFound(f"No task about {task!r} is there for you.")


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
