"""`manage.py agentstop_export TASK`: a task's facts in order, as JSON or CSV."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentstop import database, export
from agentstop.models import Task


class Command(BaseCommand):
    help = "Prints every fact of a task in order: decisions, attempts, receipts, calls."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", type=int)
        parser.add_argument("--format", choices=["json", "csv"], default="json")
        parser.add_argument("--no-bodies", action="store_true", help="leave out what providers answered")

    def handle(self, *, task: int, format: str, no_bodies: bool, **options: Any) -> None:
        found = Task.objects.using(database.alias()).filter(pk=task).first()
        if found is None:
            raise CommandError(f"There is no task {task}. `manage.py agentstop_export ID` takes the number of a task.")
        facts = export.facts(found, bodies=not no_bodies)
        if format == "json":
            described = {"task": found.pk, "title": found.title, "state": found.state, "facts": facts}
            self.stdout.write(json.dumps(described, indent=2, ensure_ascii=False))
            return
        for line in export.lines(export.COLUMNS, (row.values() for row in facts)):
            self.stdout.write(line, ending="")
