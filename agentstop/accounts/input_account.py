"""What is stored of a task's inputs, for those who read: all that is open, and the last of what is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, Max, OuterRef, QuerySet, Window
from django.db.models.functions import Left, RowNumber

from agentstop import database
from agentstop.composed import Composed
from agentstop.folds.input_states import Became, InputFact
from agentstop.models import Input, InputEvent

SHOWN = 2_000  # characters of a text
OPEN = 100  # of those that are not done with nor withdrawn
OVER = 5  # of those that are


@dataclass(frozen=True, slots=True)
class KnownInput:
    """One input with its facts; `head` is the beginning of its text."""

    row: Input
    head: str
    events: tuple[InputEvent, ...]

    @property
    def facts(self) -> tuple[InputFact, ...]:
        return tuple(InputFact(Became(event.became), event.run) for event in self.events)

    @property
    def cut(self) -> bool:
        return len(self.head) > SHOWN


@dataclass(frozen=True, slots=True)
class KnownInputs:
    """The newest of them in the order in which they were typed; `more` says that older open ones are not among them."""

    known: tuple[KnownInput, ...] = ()
    more: bool = False


def load(task_ids: Sequence[int]) -> Mapping[int, KnownInputs]:
    """The inputs of those of these tasks that have any."""
    typed: dict[int, list[Any]] = defaultdict(list)
    for row in _NEWEST.rows(task_ids, database.alias()):
        typed[row.task_id].append(row)
    chosen = {pk: _chosen(rows) for pk, rows in typed.items()}
    events = _events([row for rows, _ in chosen.values() for row in rows])
    return {
        pk: KnownInputs(tuple(KnownInput(row, row.head, tuple(events[row.pk])) for row in rows), more)
        for pk, (rows, more) in chosen.items()
    }


def _newest(task_ids: Sequence[int]) -> QuerySet[Any]:
    rows = Input.objects.filter(task__in=task_ids).select_related("by").defer("body")
    heads: QuerySet[Any] = rows.annotate(head=Left("body", SHOWN + 1)).order_by("-pk")
    over = Exists(InputEvent.objects.filter(input=OuterRef("pk"), became__in=[Became.DONE, Became.WITHDRAWN]))
    place = Window(RowNumber(), partition_by=[F("task"), F("over")], order_by="-pk")
    newest: QuerySet[Any] = heads.annotate(over=over).annotate(place=place).filter(place__lte=OPEN + 1)
    return newest


_NEWEST = Composed(_newest)


def _chosen(newest: Sequence[Any]) -> tuple[Sequence[Any], bool]:
    """Of the newest ones those that are shown, and whether older open ones are not among them."""
    still_open = [row for row in newest if not row.over]
    ended = [row for row in newest if row.over][:OVER]
    return sorted([*still_open[:OPEN], *ended], key=lambda row: row.pk), len(still_open) > OPEN


def _events(rows: Iterable[Input]) -> Mapping[int, Sequence[InputEvent]]:
    found: dict[int, list[InputEvent]] = defaultdict(list)
    for event in _EVENTS.rows([row.pk for row in rows], database.alias()):
        found[event.input_id].append(event)
    return found


_EVENTS = Composed(lambda ids: InputEvent.objects.filter(input__in=ids).select_related("by").order_by("pk"))


def marks(task_ids: Sequence[int]) -> Mapping[int, tuple[Any, ...]]:
    """For each task that has inputs a value that is another one whenever something stored about them is."""
    rows = Input.objects.using(database.alias()).filter(task__in=task_ids).values("task")
    counted = rows.annotate(last=Max("pk"), event=Max("events__pk"), many=Count("pk"))
    return {row[0]: row for row in counted.values_list("task", "last", "event", "many")}
