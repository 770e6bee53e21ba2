"""`manage.py agentstop_after_restore`: a restored backup must not un-stop what was stopped after it was taken."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agentstop import database
from agentstop.closing import OPEN
from agentstop.models import Operation, Task
from agentstop.states import TaskState
from agentstop.stop import stop

REASON = "Restored from a backup: what was decided after it was taken is not known here."


class Command(BaseCommand):
    help = (
        "Run it after a backup was restored and before agents run again: stops every task that was active in it, "
        "since a stop made after the backup would be forgotten otherwise."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be stopped")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        active = Task.objects.using(database.alias()).filter(state__in=[TaskState.ACTIVE, TaskState.PAUSED])
        stopped = 0
        for task in active.order_by("pk").iterator():
            if dry_run:
                self.stdout.write(f"would stop task {task.pk}: {task.title}")
                continue
            report = stop(task.pk, policy="after_restore", reason=REASON)
            stopped += report.stopped
            self.stdout.write(f"stopped task {task.pk}: {task.title} ({len(report.open)} operations open)")
        still_open = Operation.objects.using(database.alias()).filter(state__in=OPEN).count()
        self.stdout.write(
            f"{stopped} tasks stopped. {still_open} operations are open, and are looked up by the worker. "
            "Operations sent after the backup was taken are not in it: compare with the providers."
        )
