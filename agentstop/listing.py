"""A list of tasks: filters, search in titles, pages by id; as many queries for ten tasks as for a hundred thousand.

A filter first asks the database for what may fit by the stored states; what time alone has changed since is folded
again, and only what fits now is shown. So a page may hold fewer tasks than there is room for, and never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, Q, QuerySet

from agentstop import bodies, captions, database, permissions, silence
from agentstop.closing import MAY_GO_ON
from agentstop.models import Operation, Question, Task
from agentstop.reports import report
from agentstop.reports.report import TaskReport
from agentstop.reports.role import Role
from agentstop.states import Cancellation, OperationState, TaskState

SIZE = 25  # tasks of a page
MOST = 200  # tasks that are kept up to date
LONGEST = 200  # characters of a text that is searched for
LARGEST = 18  # digits of an id


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are shown: `stored` asks the database and leaves out none that fits, `fits` decides about each."""

    name: str
    stored: Callable[[QuerySet[Task], datetime], QuerySet[Task]]
    fits: Callable[[TaskReport], bool] | None = None  # None: what is stored is true


def _in_state(state: TaskState) -> Filter:
    return Filter(captions.FILTERS[state], lambda tasks, now: tasks.filter(state=state))


def _has_open(*conditions: Q, **columns: Any) -> Q:
    """It has an operation that may still have its effect, by what is stored, and for which this holds too."""
    return Q(Exists(Operation.objects.filter(MAY_GO_ON, *conditions, task=OuterRef("pk"), **columns)))


def _may_be_unknown(tasks: QuerySet[Task], now: datetime) -> QuerySet[Task]:
    """Time alone makes unknown only of what is under way, and never opens what is not open."""
    return tasks.filter(_has_open(Q(state=OperationState.UNKNOWN) | Q(due_at__lte=now)))


def _may_ask(tasks: QuerySet[Task], now: datetime) -> QuerySet[Task]:
    """A question lives no longer than its run."""
    asked = Question.objects.filter(task=OuterRef("pk"), run=OuterRef("live_run"), applied_at__isnull=True)
    return tasks.filter(Exists(asked))


FILTERS: Mapping[str, Filter] = {
    "": Filter(captions.FILTERS[""], lambda tasks, now: tasks),
    **{str(state): _in_state(state) for state in TaskState},
    "open": Filter(captions.FILTERS["open"], lambda tasks, now: tasks.filter(_has_open()), lambda told: told.goes_on),
    "unknown": Filter(captions.FILTERS["unknown"], _may_be_unknown, lambda told: told.unsure),
    "asking": Filter(captions.FILTERS["asking"], _may_ask, lambda told: told.asks),
    "silent": Filter(captions.FILTERS["silent"], lambda tasks, now: silence.silent(tasks)),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader asked to see. `before` and `after` are ids: older than the one, newer than the other."""

    show: str = ""
    text: str = ""
    before: int | None = None
    after: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> Asked:
        """What an address asks for; what it asks in vain is left out."""
        show = query.get("show", "")
        text = bodies.safe(query.get("q", ""))[:LONGEST].strip()
        return cls(show if show in FILTERS else "", text, _number(query, "before"), _number(query, "after"))

    @property
    def filter(self) -> Filter:
        return FILTERS[self.show]

    def address(self, **more: object) -> str:
        """The query of an address that asks for the same, from the first page on, and for more."""
        wanted = {"show": self.show, "q": self.text, **more}
        return "?" + urlencode({name: value for name, value in wanted.items() if value not in ("", None)})


def named(ids: str) -> list[int]:
    """The ids in an address, with commas between them; what is none is left out."""
    return [int(each) for each in ids.split(",")[:MOST] if each.isascii() and each.isdigit() and len(each) <= LARGEST]


def _number(query: Mapping[str, Any], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LARGEST else None


@dataclass(frozen=True, slots=True)
class Page:
    """The tasks of a page as this user may read them; `older` and `newer` are addresses, empty where there are none."""

    asked: Asked
    rows: tuple[tuple[TaskReport, Role], ...]
    older: str
    newer: str


def page(user: Any, asked: Asked, size: int = SIZE) -> Page:
    """The page that was asked for, newest tasks first."""
    tasks, older, newer = _cut(matching(user, asked), asked, size)
    if not tasks and (asked.before or asked.after):
        return Page(asked, (), "", asked.address())
    rows = tuple((told, role) for told, role in report.load_all(tasks, user) if fits(asked, told))
    return Page(
        asked,
        rows,
        asked.address(before=tasks[-1].pk) if older else "",
        asked.address(after=tasks[0].pk) if newer else "",
    )


def _cut(found: QuerySet[Task], asked: Asked, size: int) -> tuple[list[Task], bool, bool]:
    """The tasks of the page, whether there are older ones, and newer ones; never counted."""
    if asked.after is not None:
        rows = list(found.filter(pk__gt=asked.after).order_by("pk")[: size + 1])
        return rows[:size][::-1], found.filter(pk__lte=asked.after).exists(), len(rows) > size
    if asked.before is not None:
        rows = list(found.filter(pk__lt=asked.before).order_by("-pk")[: size + 1])
        return rows[:size], len(rows) > size, found.filter(pk__gte=asked.before).exists()
    rows = list(found.order_by("-pk")[: size + 1])
    return rows[:size], len(rows) > size, False


def matching(user: Any, asked: Asked) -> QuerySet[Task]:
    """The tasks that this user may see and that may fit, by what is stored."""
    found = asked.filter.stored(permissions.visible(user), database.now())
    return found.filter(title__icontains=asked.text) if asked.text else found


def fits(asked: Asked, told: TaskReport) -> bool:
    """Whether a task fits at this moment."""
    return asked.filter.fits is None or asked.filter.fits(told)


def stoppable(tasks: QuerySet[Task]) -> QuerySet[Task]:
    """Those of which a stop would end something: dispatch is open, or something is under way that nobody cancels."""
    left = _has_open(cancellation=Cancellation.NONE)
    return tasks.filter(Q(state__in=(TaskState.ACTIVE, TaskState.PAUSED)) | Q(state=TaskState.FINISHED) & left)
