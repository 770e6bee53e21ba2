"""What the panel's templates are given, for one reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.urls import get_script_prefix, reverse
from django.utils import timezone
from django.utils.translation import get_language, gettext

from agentstop import conf, fragments, inputs, listing
from agentstop.accounts import selection
from agentstop.listing import Asked
from agentstop.reports import report
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role

SOCKETS = "ws/agentstop/"  # below the site's root; `agentstop.routing` answers there


# The end of the form's id, and the name of its URL.
FORMS = (
    ("stop", "stop"),
    ("look-up", "look_up"),
    ("answer", "answer"),
    ("release", "release_input"),
    ("withdraw", "withdraw_input"),
    ("pause", "pause"),
    ("resume", "resume"),
    ("new-run", "new_run"),
)


def prefix(task_id: int) -> str:
    """The beginning of all ids in a task's panel."""
    return f"agentstop-task-{task_id}"


def context(task_id: int, user: Any, *, next_page: str = "", live: bool = True, message: str = "") -> dict[str, Any]:
    """The template context of a panel as this user may see it; TaskNotFound where they may not."""
    told, role = report.load(task_id, user)
    return {
        "prefix": prefix(task_id),
        "report": told,
        "role": role,
        "picture": fragments.draw(told, role),
        "forms": forms(task_id),
        "socket": socket(task_id) if live else "",
        "poll": reverse("agentstop:panel", args=[task_id]),
        "next": next_page,
        "message": message,
        "takes_input": conf.TAKES_INPUT and role.may_type,
        "longest": inputs.LONGEST,
    }


def button_context(
    task_id: int, user: Any, *, next_page: str = "", live: bool = True, message: str = ""
) -> dict[str, Any]:
    """The template context of a Stop button that stands alone; TaskNotFound where this user may not see the task."""
    told, role = report.load(task_id, user, selection.ROW)
    return {
        "prefix": prefix(task_id),
        "report": told,
        "button": fragments.button(told, role),
        "socket": _socket(f"tasks/{task_id}/button/") if live else "",
        "poll": reverse("agentstop:button", args=[task_id]),
        "next": next_page,
        "message": message,
    }


def forms(task_id: int) -> list[tuple[str, str]]:
    """The ends of the forms' ids, and their addresses."""
    return [(name, reverse(f"agentstop:{url}", args=[task_id])) for name, url in FORMS]


def socket(task_id: int) -> str:
    """The address of the websocket that keeps the panel up to date."""
    return _socket(f"tasks/{task_id}/")


def list_context(rows: Sequence[tuple[TaskReport, Role]], *, next_page: str = "", live: bool = True) -> dict[str, Any]:
    """The template context of a list of tasks, each of which its reader may see."""
    named = ",".join(str(told.id) for told, _ in rows)
    return {
        "rows": [fragments.in_list(told, role) for told, role in rows],
        "now": rows[0][0].now if rows else None,
        "socket": _socket("tasks/", tasks=named) if live and rows else "",
        "poll": f"{reverse('agentstop:rows')}?{urlencode({'tasks': named})}" if rows else "",
        "next": next_page,
    }


def found_context(user: Any, asked: Asked, *, next_page: str, live: bool = True) -> dict[str, Any]:
    """The template context of a list with its filters, search and pages, as this user may see it."""
    page = listing.page(user, asked)
    stop_all = reverse("agentstop:stop_all")
    return {
        **list_context(page.rows, next_page=next_page, live=live),
        "asked": asked,
        "page": page,
        "filters": [
            (gettext(each.name), replace(asked, show=show).address() or "?", show == asked.show)
            for show, each in listing.FILTERS.items()
        ],
        "stop_mine": f"{stop_all}?{urlencode({'mine': 1, 'next': next_page})}",
        "stop_shown": f"{stop_all}{asked.address(next=next_page)}" if asked.show or asked.text else "",
    }


def _socket(path: str, **query: str) -> str:
    """An address below the site's root, with the language and zone of this page."""
    reader = {"language": get_language() or "", "zone": timezone.get_current_timezone_name()}
    return f"{get_script_prefix()}{SOCKETS}{path}?{urlencode({**query, **reader})}"
