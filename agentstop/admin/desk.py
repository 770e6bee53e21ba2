"""The desk: what waits for an operator, each board with its number, its age, and the list of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop import boards
from agentstop.admin.filters import SILENT
from agentstop.boards import Board
from agentstop.words import frozen_words
from agentstop.words.board_words import ADVICE, TITLES

IN_FORCE = "in_force"
ABOUT_OPERATIONS = [board for board in Board if board not in (Board.NO_SIGN_OF_LIFE, Board.FROZEN)]
LISTS = {
    Board.NO_SIGN_OF_LIFE: ("task_changelist", f"?agent={SILENT}"),
    Board.FROZEN: ("freeze_changelist", f"?standing={IN_FORCE}"),
}


class BoardFilter(admin.SimpleListFilter):
    """The operations of one board."""

    title = _("what waits for an operator")
    parameter_name = "board"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(board, gettext(TITLES[board])) for board in ABOUT_OPERATIONS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(pk__in=boards.rows(Board(value)).values("pk")) if value in ABOUT_OPERATIONS else queryset


@dataclass(frozen=True, slots=True)
class Line:
    """One board as the desk shows it; `address` names the admin's list, `query` what is chosen in it."""

    title: str
    advice: str
    count: int
    oldest: datetime | None
    list: str
    query: str


def lines(user: Any) -> list[Line]:
    """Every board, in the order in which it presses, as this user's lists show it."""
    return [_line(each) for each in boards.standings(user)]


def _line(standing: boards.Standing) -> Line:
    board = standing.board
    name, query = LISTS.get(board, ("operation_changelist", f"?board={board}"))
    return Line(
        title=gettext(TITLES[board]),
        advice=gettext(ADVICE[board]),
        count=standing.count,
        oldest=standing.oldest,
        list=f"admin:agentstop_{name}",
        query=query,
    )


class FrozenNow(admin.SimpleListFilter):
    """The freezes that hold something at this moment."""

    title = _("standing")
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(IN_FORCE, gettext(frozen_words.IN_FORCE))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        held = boards.rows(Board.FROZEN).values("pk")
        return queryset.filter(pk__in=held) if self.value() == IN_FORCE else queryset
