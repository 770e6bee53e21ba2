"""The panel in pieces of HTML with ids, the same for the page, for an answer to a press and for the websocket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role

PARTS = ("state", "line", "questions", "alert", "inputs", "family")
NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Picture:
    """All pieces of one task as HTML: its panel's parts by name, one row for each operation, and its row in lists."""

    task: int
    parts: Mapping[str, SafeString]
    rows: Mapping[OperationReport, SafeString]
    in_lists: SafeString

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

    Not `whole`: the row for lists alone.
    """
    if not whole:
        return Picture(report.id, NOTHING, NOTHING, in_list(report, role))
    context = {"report": report, "role": role}
    parts = {part: render_to_string(f"agentstop/fragments/{part}.html", context) for part in PARTS}
    rows = {each: drawn[each] if each in drawn else _row(report, each, role) for each in report.operations}
    return Picture(report.id, parts, rows, in_list(report, role))


def in_list(report: TaskReport, role: Role) -> SafeString:
    """The task's row in a list of tasks. A site overrides the template to link to a page of its own."""
    return render_to_string("agentstop/fragments/task.html", {"report": report, "role": role})


def _row(report: TaskReport, operation: OperationReport, role: Role) -> SafeString:
    context = {"report": report, "operation": operation, "role": role}
    return render_to_string("agentstop/fragments/operation.html", context)


def difference(old: Picture | None, new: Picture) -> list[SafeString]:
    """The pieces of the new picture that the old one did not have; after a new operation, the list as a whole."""
    if old is None:  # a snapshot: nothing is announced again, so a failure that is known stays quiet
        return [*(new.parts[part] for part in PARTS if part != "alert"), new.operations]
    pieces = [html for part, html in new.parts.items() if old.parts[part] != html]
    if old.order != new.order:
        return [*pieces, new.operations]
    return [*pieces, *(html for each, html in new.rows.items() if old.rows.get(each) != html)]


def carried(piece: SafeString) -> SafeString:
    """The piece for hx-ws, which finds its place by its id. Never in a page: htmx would take it out of there."""
    tag, rest = piece.lstrip().split(" ", 1)
    return mark_safe(f'{tag} hx-swap-oob="outerMorph" {rest}')  # noqa: S308  a rendered template, one attribute added
