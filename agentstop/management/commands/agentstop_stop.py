"""`manage.py agentstop_stop`: stops tasks by number, by owner, by the host's object, or all that is at work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentstop import database
from agentstop.bulk import count_before, stop_all
from agentstop.descendants import ALIVE
from agentstop.exceptions import AgentStopError
from agentstop.management import people, which
from agentstop.models import Task
from agentstop.per_task import Answer, Answers, Counted
from agentstop.stop import StopReport


class Command(BaseCommand):
    help = "Stops each of these tasks by itself and tells what became of it; exit code 1 where one was not reached."

    def add_arguments(self, parser: CommandParser) -> None:
        which.add_arguments(parser, meant="is at work")
        parser.add_argument("--reason", default="", help="shown to the owners")
        parser.add_argument("--by", metavar="USER", default="", help="who stops; checked for the permission if given")
        parser.add_argument("--dry-run", action="store_true", help="only count what would be stopped")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, **options: Any) -> None:
        working = Task.objects.using(database.alias()).filter(state__in=ALIVE)
        tasks, by = which.tasks(options, working, "Nothing was stopped."), people.named(options["by"])
        try:
            if options["dry_run"]:
                return self._say(_counted(count_before(tasks, by=by)), options["json"])
            policy = "" if by is not None else people.POLICY
            answers = stop_all(tasks, by=by, reason=options["reason"], policy=policy)
        except AgentStopError as error:
            raise CommandError(str(error)) from error
        self._say(_told(answers), options["json"])
        if answers.failed:
            sys.exit(1)

    def _say(self, told: dict[str, Any], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(told, indent=2))
            return
        for each in told.get("tasks", ()):
            self.stdout.write(_line(each))
        before = told["before"]
        self.stdout.write(", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in before.items()))


def _counted(before: Counted) -> dict[str, Any]:
    return {"before": asdict(before)}


def _told(answers: Answers[StopReport]) -> dict[str, Any]:
    return {**_counted(answers.before), "tasks": [_answer(each) for each in answers.answers]}


def _answer(answer: Answer[StopReport]) -> dict[str, Any]:
    report = answer.report
    if report is None:
        return {"task": answer.task, "stopped": False, "error": str(answer.error)}
    return {
        "task": answer.task,
        "stopped": report.stopped,
        "why": report.why,
        "open": list(report.open),
        "never_sent": list(report.never_sent),
        "descendants": report.descendants,
        "open_below": list(report.open_below),
    }


def _line(told: dict[str, Any]) -> str:
    if "error" in told:
        return f"task {told['task']}: NOT STOPPED: {told['error']}"
    what = "stopped" if told["stopped"] else told["why"].replace("_", " ")
    left = f"{len(told['open'])} operations open, {len(told['never_sent'])} never sent"
    below = f"{told['descendants']} descendants stopped with it"
    if told["open_below"]:
        below += f", {len(told['open_below'])} operations open below it"
    return f"task {told['task']}: {what} ({left}, {below})"
