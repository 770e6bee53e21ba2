"""Very many tasks at once: copies of a first one, by one statement."""

from __future__ import annotations

from typing import Any

from django.db import connection, models

from agentstop.models import Attempt, Operation, Receipt, Task
from agentstop.runs import begin

NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s) "
UUID = {"sqlite": "lower(hex(randomblob(16)))", "postgresql": "gen_random_uuid()"}


def many_tasks(first: Task, many: int, **changed: str) -> None:
    """So many more tasks like the first one, without operations; `changed` are columns as SQL, where `n` counts."""
    columns, values = copied(Task, {"title": "'Report ' || n", **changed})
    table = Task._meta.db_table
    sql = (
        f"{NUMBERS} INSERT INTO {table} ({columns}) SELECT {values} FROM numbers, {table} AS first WHERE first.id = %s"  # noqa: S608
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [many, first.pk])


def one_operation_each(first: Operation) -> None:
    """Every task that has none gets an operation like this one, with its attempt and its receipt."""
    attempt, receipt = Attempt.objects.get(operation=first), Receipt.objects.get(operation=first)
    give(first, Task, "task_id", {"task_id": "owner.id", "idempotency_key": UUID[connection.vendor]})
    give(attempt, Operation, "operation_id", {"operation_id": "owner.id"})
    give(receipt, Attempt, "attempt_id", {"attempt_id": "owner.id", "operation_id": "owner.operation_id"})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as a database does by itself, some time after so many rows have come


def give(first: models.Model, owners: type[models.Model], link: str, changed: dict[str, str]) -> None:
    """Each owner that has no row of this kind gets one like the first."""
    table = first._meta.db_table
    columns, values = copied(type(first), changed)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}) SELECT {values} FROM {owners._meta.db_table} AS owner, {table} AS first "  # noqa: S608
            f"WHERE first.id = %s AND NOT EXISTS (SELECT 1 FROM {table} AS other WHERE other.{link} = owner.id)",
            [first.pk],
        )


def copied(model: type[models.Model], changed: dict[str, str]) -> tuple[str, str]:
    """The columns of a row but for its id, and their values, taken from `first` where they are not changed."""
    columns = [str(field.column) for field in model._meta.concrete_fields if not field.primary_key]
    return ", ".join(columns), ", ".join(changed.get(column, f"first.{column}") for column in columns)


def in_doubt(owner: Any, title: str) -> Task:
    """A task with an operation whose outcome nobody knows."""

    def lost(_: object) -> None:
        raise OSError("reset by peer")

    run = begin(title, owner=owner)
    run.call("mail.send", connector="tools", key="k", send=lost)
    return Task.objects.get(pk=run.task_id)


def under_way(owner: Any, title: str) -> Task:
    """A task with an operation that its provider has accepted."""
    run = begin(title, owner=owner)
    with run.dispatch("file.upload", connector="tools", key="k") as op:
        op.accepted(ref="r")
    return Task.objects.get(pk=run.task_id)
