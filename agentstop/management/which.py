"""Which tasks a command line means."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from agentstop import database, per_task
from agentstop.management import people
from agentstop.models import Task

WAYS = ("task", "owner", "subject", "all")


def add_arguments(parser: CommandParser, *, meant: str) -> None:
    """The words that name tasks; `meant`: what is true of those that --owner and --all take."""
    parser.add_argument("task", type=int, nargs="*", help="numbers of tasks")
    parser.add_argument("--owner", metavar="USER", default="", help=f"all tasks of this user that {meant}")
    parser.add_argument("--subject", metavar="APP.MODEL:ID", default="", help="all tasks about this object")
    parser.add_argument("--all", action="store_true", help=f"every task that {meant}")


def tasks(options: dict[str, Any], meant: QuerySet[Task], nothing: str) -> QuerySet[Task]:
    """The tasks that the options name; `meant` are those that --owner and --all choose from.

    CommandError, which ends with `nothing` ("Nothing was stopped."), where they name none, or in two ways.
    """
    if sum(bool(options[way]) for way in WAYS) != 1:
        raise CommandError(f"Name tasks by their numbers, or one of --owner, --subject and --all. {nothing}")
    if options["task"]:
        return _numbered(options["task"], nothing)
    if options["subject"]:
        return per_task.tasks_of(_subject(options["subject"], nothing))
    return meant.filter(owner=people.named(options["owner"])) if options["owner"] else meant


def _numbered(numbers: list[int], nothing: str) -> QuerySet[Task]:
    found = Task.objects.using(database.alias()).filter(pk__in=numbers)
    if missing := sorted(set(numbers) - set(found.values_list("pk", flat=True))):
        raise CommandError(f"There is no task {', '.join(map(str, missing))}. {nothing}")
    return found


def _subject(name: str, nothing: str) -> Any:
    label, _, pk = name.partition(":")
    try:
        found = apps.get_model(label)._default_manager.filter(pk=pk).first()
    except (LookupError, ValueError, ValidationError) as error:
        raise CommandError(f"--subject takes APP.MODEL:ID, not {name!r}: {error} {nothing}") from error
    if found is None:
        raise CommandError(f"There is no {label} {pk!r}. {nothing}")
    return found
