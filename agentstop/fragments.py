"""The panel in pieces of HTML with ids, the same for the page, for an answer to a press and for the websocket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role
from agentstop.states import TaskState

PARTS = ("state", "line", "questions", "alert", "rest", "inputs", "family")
MORPH = "morph"
NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Picture:
    """All pieces of a task as HTML: its panel's parts by name, a row for each operation listed, its row in lists."""

    task: int
    parts: Mapping[str, SafeString]
    rows: Mapping[OperationReport, SafeString]
    in_lists: SafeString
    button: SafeString  # a Stop button that stands alone
    awaited: bool = False  # the task is over, and an outcome of it unknown

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(operation.id for operation in self.rows)

    @property
    def operations(self) -> SafeString:
        """The whole list."""
        context = {"task": self.task, "rows": list(self.rows.values())}
        return render_to_string("agentstop/fragments/operations.html", context)


def draw(
    report: TaskReport, role: Role, drawn: Mapping[OperationReport, SafeString] = NOTHING, *, whole: bool = True
) -> Picture:
    """Render the task in the active language and time zone; rows that were drawn before with equal words are kept.

    Not `whole`: the row for lists and the Stop button alone.
    """
    if not whole:
        return Picture(report.id, NOTHING, NOTHING, in_list(report, role), button(report, role))
    context = {"report": report, "role": role}
    parts = {part: render_to_string(f"agentstop/fragments/{part}.html", context) for part in PARTS}
    rows = {each: drawn[each] if each in drawn else row(report, each, role) for each in report.operations}
    awaited = report.unsure and report.state in (TaskState.STOPPED, TaskState.FINISHED)
    return Picture(report.id, parts, rows, in_list(report, role), button(report, role), awaited)


def in_list(report: TaskReport, role: Role) -> SafeString:
    """The task's row in a list of tasks. A site overrides the template to link to a page of its own."""
    return render_to_string("agentstop/fragments/task.html", {"report": report, "role": role})


def button(report: TaskReport, role: Role) -> SafeString:
    """A Stop button that stands alone, with the line of its task."""
    return render_to_string("agentstop/fragments/button.html", {"report": report, "role": role})


def row(report: TaskReport, operation: OperationReport, role: Role) -> SafeString:
    """One operation in a list of them."""
    context = {"report": report, "operation": operation, "role": role}
    return render_to_string("agentstop/fragments/operation.html", context)


@dataclass(frozen=True, slots=True)
class Piece:
    """HTML for the websocket, and how it gets into the page: as it is, in place of what has its id."""

    html: SafeString
    how: str = MORPH


def difference(old: Picture | None, new: Picture) -> list[Piece]:
    """The pieces of the new picture that the old one did not have."""
    if old is None:  # a snapshot: nothing is announced again, so a failure that is known stays quiet
        return [*(Piece(new.parts[part]) for part in PARTS if part != "alert"), Piece(new.operations)]
    pieces = [Piece(html) for part, html in new.parts.items() if old.parts[part] != html]
    moved = _moved(old, new)
    if moved is None:
        return [*pieces, Piece(new.operations)]
    kept = set(old.order)
    changed = (html for each, html in new.rows.items() if each.id in kept and old.rows.get(each) != html)
    return [*pieces, *map(Piece, changed), *moved]


def _moved(old: Picture, new: Picture) -> list[Piece] | None:
    """What takes rows out and puts new ones at the end; None where the list is in another order."""
    order, before = set(new.order), set(old.order)
    added = {each.id: html for each, html in new.rows.items() if each.id not in before}
    if (*(each for each in old.order if each in order), *added) != new.order:
        return None
    # One that is added may be there already, by an answer to a press: it is taken out first, so that none is twice.
    gone = [Piece(_place(pk), "delete") for pk in (*(pk for pk in old.order if pk not in order), *added)]
    return [*gone, Piece(_list(added.values()), f"append:#{_list_id(new.task)}")] if added else gone


def _place(operation: int) -> SafeString:
    return format_html('<li id="agentstop-operation-{}"></li>', operation)


def _list(rows: Iterable[SafeString]) -> SafeString:
    return format_html("<ol >{}</ol>", mark_safe("".join(rows)))  # noqa: S308  rendered templates


def _list_id(task: int) -> str:
    return f"agentstop-task-{task}-operations"


def carried(piece: Piece) -> SafeString:
    """The piece as `agentstop/panel.js` reads it."""
    tag, rest = piece.html.lstrip().split(" ", 1)
    return mark_safe(f'{tag} data-agentstop-swap="{piece.how}" {rest}')  # noqa: S308  a rendered template, one attribute added
