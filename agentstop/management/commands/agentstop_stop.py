"""`manage.py agentstop_stop`: stops tasks by number, by owner, by the host's object, or all that is at work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from agentstop import database, per_task
from agentstop.bulk import count_before, stop_all
from agentstop.descendants import ALIVE
from agentstop.exceptions import AgentStopError
from agentstop.management import people
from agentstop.models import Task
from agentstop.per_task import Answer, Answers, Counted
from agentstop.stop import StopReport

WHICH = "Name tasks by their numbers, or one of --owner, --subject and --all."


class Command(BaseCommand):
    help = "Stops each of these tasks by itself and tells what became of it; exit code 1 where one was not reached."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", type=int, nargs="*", help="numbers of tasks")
        parser.add_argument("--owner", metavar="USER", default="", help="all tasks of this user that are at work")
        parser.add_argument("--subject", metavar="APP.MODEL:ID", default="", help="all tasks about this object")
        parser.add_argument("--all", action="store_true", help="every task that is at work")
        parser.add_argument("--reason", default="", help="shown to the owners")
        parser.add_argument("--by", metavar="USER", default="", help="who stops; checked for the permission if given")
        parser.add_argument("--dry-run", action="store_true", help="only count what would be stopped")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, **options: Any) -> None:
        tasks, by = _meant(options), people.named(options["by"])
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


def _meant(options: dict[str, Any]) -> QuerySet[Task]:
    ways = [name for name in ("task", "owner", "subject", "all") if options[name]]
    if len(ways) != 1:
        raise CommandError(f"{WHICH} Nothing was stopped.")
    tasks = Task.objects.using(database.alias())
    if options["task"]:
        return _numbered(tasks, options["task"])
    if options["subject"]:
        return per_task.tasks_of(_subject(options["subject"]))
    working = tasks.filter(state__in=ALIVE)
    return working.filter(owner=people.named(options["owner"])) if options["owner"] else working


def _numbered(tasks: QuerySet[Task], numbers: list[int]) -> QuerySet[Task]:
    found = tasks.filter(pk__in=numbers)
    if missing := sorted(set(numbers) - set(found.values_list("pk", flat=True))):
        raise CommandError(f"There is no task {', '.join(map(str, missing))}. Nothing was stopped.")
    return found


def _subject(name: str) -> Any:
    label, _, pk = name.partition(":")
    try:
        found = apps.get_model(label)._default_manager.filter(pk=pk).first()
    except (LookupError, ValueError, ValidationError) as error:
        raise CommandError(f"--subject takes APP.MODEL:ID, not {name!r}: {error} Nothing was stopped.") from error
    if found is None:
        raise CommandError(f"There is no {label} {pk!r}. Nothing was stopped.")
    return found


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
    }


def _line(told: dict[str, Any]) -> str:
    if "error" in told:
        return f"task {told['task']}: NOT STOPPED: {told['error']}"
    what = "stopped" if told["stopped"] else told["why"].replace("_", " ")
    left = f"{len(told['open'])} operations open, {len(told['never_sent'])} never sent"
    return f"task {told['task']}: {what} ({left}, {told['descendants']} descendants stopped with it)"
