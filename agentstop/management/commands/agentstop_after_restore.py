"""`manage.py agentstop_after_restore`: a restored backup must not un-stop what was stopped after it was taken."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agentstop import database, restoring
from agentstop.closing import MAY_GO_ON
from agentstop.models import Operation


class Command(BaseCommand):
    help = (
        "Run it after a backup was restored and before agents run again: stops every task that was active in it, "
        "since a stop made after the backup would be forgotten otherwise."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be stopped")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        if dry_run:
            for task in restoring.live():
                self.stdout.write(f"would stop task {task.pk}: {task.title}")
            return
        stopped = 0
        for report in restoring.stop_live():
            stopped += report.stopped
            self.stdout.write(f"stopped task {report.task} ({len(report.open)} operations open)")
        restoring.leave_names_behind()
        still_open = Operation.objects.using(database.alias()).filter(MAY_GO_ON).count()
        self.stdout.write(
            f"{stopped} tasks stopped. {still_open} operations are open, and are looked up by the worker. "
            f"Run numbers go on {restoring.RUNS} further, so that no run of the time since is taken for a new "
            "one. Operations sent after the backup was taken are not in it: compare with the providers."
        )
