"""Families as large as one likes, in several shapes: one child is begun as ever, and then copied in the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.color import no_style
from django.db import connection, models

from agentstop.models import Decision, Run, ServingLink, Task
from agentstop.runs import Run as Handle
from agentstop.runs import begin, serve

LAYER = 100  # children side by side in a diamond, each of whom serves two of the layer above

# Whom the child with number n (from 1) serves; child 0 is the first one, which serves the root alone.
SHAPES: Mapping[str, Callable[[int, int], list[str]]] = {
    "wide": lambda root, first: [f"{root}"],
    "chain": lambda root, first: [f"{first} + n - 1"],
    "binary": lambda root, first: [f"{first} + (n - 1) / 2"],
    "diamond": lambda root, first: [
        f"CASE WHEN n < {LAYER} THEN {root} ELSE {first} + n - {LAYER} END",
        f"CASE WHEN n < {LAYER} THEN {root} ELSE {first} + (n / {LAYER} - 1) * {LAYER} + (n + 1) %% {LAYER} END",
    ],
}


def tree(shape: str, size: int) -> tuple[Handle, int]:
    """A live root, and the id of the first of so many live descendants; the others' ids follow."""
    root = begin(f"root of a {shape} tree")
    first = begin("child", serves=[root]).task_id
    _copy(Task, {"pk": first}, {"id": "t.id + n"}, size)
    for model in (Run, Decision):
        _copy(model, {"task": first}, {"task_id": "t.task_id + n"}, size)
    for parent in dict.fromkeys(SHAPES[shape](root.task_id, first)):
        _copy(
            ServingLink,
            {"child": first, "parent": root.task_id},
            {"child_id": "t.child_id + n", "parent_id": parent},
            size,
        )
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), [Task]):
            cursor.execute(sql)
    return root, first


def half_held(size: int) -> tuple[Handle, int]:
    """A binary tree, one half of which works for another live root too."""
    root, first = tree("binary", size)
    serve(first + 2, begin("another root"))
    return root, first


def _copy(model: type[models.Model], only: Mapping[str, Any], changed: Mapping[str, str], size: int) -> None:
    """For each n from 1 below the size a copy of the one row that is named, with these columns computed."""
    row = model._default_manager.get(**only)
    names = [str(field.column) for field in model._meta.concrete_fields]
    columns = [name for name in names if name != "id" or name in changed]
    cells = [changed.get(column, f"t.{column}") for column in columns]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "  # noqa: S608  names of our own
            "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < %s) "
            f"SELECT {', '.join(cells)} FROM {model._meta.db_table} AS t CROSS JOIN numbers WHERE t.id = %s "
            "ON CONFLICT DO NOTHING",  # in the first layer of a diamond both links are to the root
            [size, row.pk],
        )
