"""`manage.py demo_prepare`: the tables and the people of the demo. `manage.py demo` calls it."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from website import environment
from website.demo.people import Strangers, make_people
from website.demo.system import PEOPLE


class Command(BaseCommand):
    help = "Migrates the database and makes the demo's people; does nothing the second time."

    def handle(self, **options: Any) -> None:
        environment.folder().mkdir(parents=True, exist_ok=True)
        try:
            call_command("migrate", interactive=False, verbosity=0)
            make_people(environment.folder() / PEOPLE)
        except Strangers as strangers:
            raise CommandError(str(strangers)) from None
        except DatabaseError as problem:
            name = connection.settings_dict["NAME"]
            why = str(problem).strip().splitlines()[0]
            raise CommandError(f"The database {name} cannot be used: {why}") from None
