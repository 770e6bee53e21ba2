"""The panel in pieces of HTML with ids, the same for the page, for an answer to a press and for the websocket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role
from agentstop.states import TaskState

PARTS = ("state", "line", "questions", "alert", "rest", "inputs", "family")
ALONE = ("task", "button")
MORPH = "morph"
NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Drawn:
    """A piece of HTML, and what was read of the report to draw it: where that is equal, it need not be drawn again."""

    html: SafeString
    read: Mapping[str, Any]

    def is_of(self, report: TaskReport) -> bool:
        return all(getattr(report, name) == value for name, value in self.read.items())


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Picture:
    """All pieces of a task as HTML: its panel's parts by name and a row for each operation listed.

    Or, for those who see no panel, its row in lists and a Stop button that stands alone.
    """

    task: int
    pieces: Mapping[str, Drawn]
    rows: Mapping[OperationReport, SafeString]
    role: Role
    day: date  # on which it was drawn: a time of another day is told with its date
    awaited: bool = False  # the task is over, and an outcome of it unknown
    _after: WeakKeyDictionary[Picture, str] = field(default_factory=WeakKeyDictionary)

    @property
    def parts(self) -> Mapping[str, SafeString]:
        return {part: self.pieces[part].html for part in PARTS}

    @property
    def in_lists(self) -> SafeString:
        return self.pieces["task"].html

    @property
    def button(self) -> SafeString:
        """A Stop button that stands alone."""
        return self.pieces["button"].html

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(operation.id for operation in self.rows)

    @property
    def operations(self) -> SafeString:
        """The whole list."""
        context = {"task": self.task, "rows": list(self.rows.values())}
        return render_to_string("agentstop/fragments/operations.html", context)


def draw(report: TaskReport, role: Role, before: Picture | None = None, *, whole: bool = True) -> Picture:
    """Render the task in the active language and time zone. Not `whole`: its row for lists and its Stop button alone.

    `before`: an earlier picture in the same language and zone. What it was drawn of and is equal now is kept.
    """
    day = timezone.localdate()
    if before is not None and (before.role, before.day) != (role, day):
        before = None
    pieces = {name: _piece(name, report, role, before) for name in (PARTS if whole else ALONE)}
    drawn = before.rows if before is not None else NOTHING
    listed = report.operations if whole else ()
    rows = {each: drawn[each] if each in drawn else row(report, each, role) for each in listed}
    awaited = whole and report.unsure and report.state in (TaskState.STOPPED, TaskState.FINISHED)
    return Picture(report.id, pieces, rows, role, day, awaited)


def _piece(name: str, report: TaskReport, role: Role, before: Picture | None) -> Drawn:
    if before is not None and name in before.pieces and before.pieces[name].is_of(report):
        return before.pieces[name]
    watched = _Watched(report)
    html = render_to_string(f"agentstop/fragments/{name}.html", {"report": watched, "role": role})
    return Drawn(html, watched.read)


class _Watched:
    """A report as a template reads it, and what was read of it."""

    def __init__(self, report: TaskReport) -> None:
        self._report, self.read = report, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        """Templates try this first, and find out at a price where there is none."""
        value = self.read[name] = getattr(self._report, name)
        return value

    def __getattr__(self, name: str) -> Any:
        """As a site's own tags and filters read a report."""
        return self[name]


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


def frame(old: Picture | None, new: Picture) -> str:
    """What brings a page from the old picture to the new one, as its script reads it; once for all who saw the old."""
    if old is None:
        return "".join(map(carried, difference(None, new)))
    if old not in new._after:
        new._after[old] = "".join(map(carried, difference(old, new)))
    return new._after[old]


def difference(old: Picture | None, new: Picture) -> list[Piece]:
    """The pieces of the new picture that the old one did not have."""
    if old is None:  # a snapshot: nothing is announced again, so a failure that is known stays quiet
        return [*(Piece(new.parts[part]) for part in PARTS if part != "alert"), Piece(new.operations)]
    was = old.parts
    pieces = [Piece(html) for part, html in new.parts.items() if was[part] != html]
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
