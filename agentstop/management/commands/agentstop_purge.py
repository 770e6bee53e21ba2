"""`manage.py agentstop_purge`: erases what was said in tasks that are over; that something happened stays."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentstop import database, erasure
from agentstop.management import which
from agentstop.models import Task

NOTHING = "Nothing was erased."


class Command(BaseCommand):
    help = (
        "Erases results, requests, inputs, questions and errors of tasks that are over and have nothing open. What was "
        "decided, sent and heard, and when, stays. A timer runs it with --all --older-than 90."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which.add_arguments(parser, meant="is over")
        parser.add_argument("--older-than", type=float, metavar="DAYS", help="only tasks that are over for so long")
        parser.add_argument("--titles", action="store_true", help="titles and the reasons of decisions, too")
        parser.add_argument("--reason", default="", help="kept with the decision to erase")
        parser.add_argument("--dry-run", action="store_true", help="only count what would be erased")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, **options: Any) -> None:
        before = _before(options["older_than"])
        over = Task.objects.using(database.alias()).filter(state__in=erasure.OVER)
        tasks = which.tasks(options, over, NOTHING)
        if options["dry_run"]:
            due = erasure.due(tasks, before).count()
            self._say({"would_erase": due, "would_keep": tasks.count() - due}, options["json"])
            return
        done = erasure.erase(tasks, before=before, titles=options["titles"], reason=options["reason"])
        self._say({"erased": len(done.erased), "kept": len(done.kept)}, options["json"])

    def _say(self, told: dict[str, int], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(told))
            return
        text = ", ".join(f"{name.replace('_', ' ')}: {count} tasks" for name, count in told.items())
        self.stdout.write(f"{text}. What is at work, open or too young is kept.")


def _before(days: float | None) -> Any:
    if days is None:
        return None
    if not 0 <= days < 1_000_000:
        raise CommandError(f"--older-than takes a number of days from 0, not {days:g}. {NOTHING}")
    return database.now() - timedelta(days=days)
