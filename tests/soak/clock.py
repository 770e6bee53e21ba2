"""The time machine: waiting is simulated by moving every time in the database back, in one transaction.

And a life begins with an empty database.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from django.db.models import F

from agentstop import passes

real_ticks = passes.ticks


@dataclass
class Clock:
    """`now` is the database's time; `virtual` counts the time travelled too, and never goes back."""

    travelled: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def virtual(self) -> datetime:
        return self.now() + self.travelled

    def ticks(self) -> float:
        """For `passes.ticks`: who holds a pass has waited too."""
        return real_ticks() + self.travelled.total_seconds()

    def travel(self, by: timedelta) -> None:
        move_database_back(by)
        self.travelled += by


def move_database_back(by: timedelta) -> None:
    with transaction.atomic():
        for model in apps.get_app_config("agentstop").get_models():
            times = [field.name for field in model._meta.concrete_fields if isinstance(field, models.DateTimeField)]
            if times:
                moved: Any = {name: F(name) - by for name in times}
                model._default_manager.update(**moved)


def empty_database() -> None:
    """No row of agentstop's is left."""
    names = [model._meta.db_table for model in apps.get_app_config("agentstop").get_models()]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE agentstop_task SET stop_decision_id = NULL")
        for name in names:
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608
