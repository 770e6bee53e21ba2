"""`manage.py agentstop_status`: what waits for an operator, one line a board."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentstop import boards
from agentstop.boards import Board, Standing
from agentstop.words.board_words import ADVICE, TITLES


class Command(BaseCommand):
    help = "Counts what waits for an operator. With --fail-on, exit code 1 where one of these boards has rows."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--fail-on",
            metavar="BOARD,…",
            default="",
            help=f"of {', '.join(Board)}: for monitors",
        )

    def handle(self, *, json: bool, fail_on: str, **options: Any) -> None:
        watched = _boards(fail_on)
        standings = boards.standings()
        if json:
            self.stdout.write(_json(standings))
        else:
            for each in standings:
                self.stdout.write(_line(each))
        if any(each.count for each in standings if each.board in watched):
            sys.exit(1)


def _boards(names: str) -> set[Board]:
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    if unknown := sorted(wanted - set(Board)):
        raise CommandError(f"There is no board {', '.join(unknown)}. --fail-on takes some of: {', '.join(Board)}.")
    return {Board(name) for name in wanted}


def _line(standing: Standing) -> str:
    if standing.oldest is None:
        return f"{standing.count:7}  {TITLES[standing.board]}"
    since = f"{standing.oldest:%Y-%m-%d %H:%M:%S %Z}"
    return f"{standing.count:7}  {TITLES[standing.board]}, the oldest since {since}. {ADVICE[standing.board]}"


def _json(standings: list[Standing]) -> str:
    told = {each.board: {"count": each.count, "oldest": each.oldest and each.oldest.isoformat()} for each in standings}
    return json.dumps(told, indent=2)
