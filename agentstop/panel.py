"""What the panel's templates are given, for one reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.urls import get_script_prefix, reverse
from django.utils import timezone
from django.utils.translation import get_language

from agentstop import conf, fragments, inputs, report
from agentstop.models import Task

SOCKETS = "ws/agentstop/"  # below the site's root; `agentstop.routing` answers there


# The end of the form's id, and the name of its URL.
FORMS = (
    ("stop", "stop"),
    ("look-up", "look_up"),
    ("answer", "answer"),
    ("release", "release_input"),
    ("withdraw", "withdraw_input"),
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
        "forms": [(name, reverse(f"agentstop:{url}", args=[task_id])) for name, url in FORMS],
        "socket": socket(task_id) if live else "",
        "next": next_page,
        "message": message,
        "takes_input": conf.TAKES_INPUT and role.may_type,
        "longest": inputs.LONGEST,
    }


def socket(task_id: int) -> str:
    """The address of the websocket that keeps the panel up to date."""
    return _socket(f"tasks/{task_id}/")


def list_context(tasks: Sequence[Task], user: Any, *, live: bool = True) -> dict[str, Any]:
    """The template context of a list of tasks, each of which this user may see."""
    rows = report.load_all(tasks, user)
    named = ",".join(str(told.id) for told, _ in rows)
    return {
        "rows": [fragments.in_list(told, role) for told, role in rows],
        "now": rows[0][0].now if rows else None,
        "socket": _socket("tasks/", tasks=named) if live and rows else "",
    }


def _socket(path: str, **query: str) -> str:
    """An address below the site's root, with the language and zone of this page."""
    reader = {"language": get_language() or "", "zone": timezone.get_current_timezone_name()}
    return f"{get_script_prefix()}{SOCKETS}{path}?{urlencode({**query, **reader})}"
