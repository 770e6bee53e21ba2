"""The statements of a receipt: one locks what it touches, one stores all that came of it, whatever the database.

Written out, because the ORM would need eight: every answer of a provider goes through here, under its task's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from agentstop import database
from agentstop.models import Call, ContextEntry, Operation, Receipt, Task

# The task first, then the operation, and before an undoing what it undoes, whose fold depends on it. The clock is read
# outside of all, since a lock may have been waited for.
LOCK = """
WITH t AS MATERIALIZED (
  SELECT id, state, live_run FROM {task}
  WHERE id = (SELECT task_id FROM {operation} WHERE id = %(operation)s) {lock_task}),
u AS MATERIALIZED (
  SELECT id FROM {operation}
  WHERE id = (SELECT compensates_id FROM {operation} WHERE id = %(operation)s) {lock_undone}),
o AS MATERIALIZED (
  SELECT op.* FROM {operation} AS op JOIN t ON t.id = op.task_id
  WHERE op.id = %(operation)s AND (SELECT count(*) FROM u) >= 0 {lock_operation})
SELECT {idle_limit}, t.state, t.live_run, {clock}, {columns} FROM o, t
"""

FOLDED = (
    "state",
    "state_since",
    "cancellation",
    "contradictory",
    "doubled",
    "another_open",
    "cancel_lease_until",
    "ref",
    "folded_at",
    "due_at",
    "follow_up_at",
    "follow_ups",
)


@dataclass(frozen=True, slots=True)
class Locked:
    """An operation under its lock. What is said of its task holds only where the task is locked too."""

    operation: Operation
    task_state: str
    live_run: int | None
    now: datetime


def locked(operation_id: int, *, with_task: bool) -> Locked:
    """Lock an operation, `with_task` after its task, first in a transaction; `now` is the time after the waiting."""
    on_postgresql = database.is_postgresql()
    fields = Operation._meta.concrete_fields
    sql = LOCK.format(
        task=Task._meta.db_table,
        operation=Operation._meta.db_table,
        lock_task="FOR NO KEY UPDATE" if on_postgresql and with_task else "",
        lock_undone="FOR NO KEY UPDATE" if on_postgresql else "",
        lock_operation="FOR NO KEY UPDATE OF op" if on_postgresql else "",
        idle_limit=database.idle_limit(),
        clock="clock_timestamp()" if on_postgresql else "NULL",
        columns=", ".join(f"o.{field.column}" for field in fields),
    )
    with database.connection().cursor() as cursor:
        cursor.execute(sql, {"operation": operation_id})
        row = cursor.fetchone()
    if row is None:
        raise Operation.DoesNotExist(f"There is no operation {operation_id}.")
    _, task_state, live_run, now, *values = row
    if not on_postgresql:
        values = [_from_sqlite(field, value) for field, value in zip(fields, values, strict=True)]
    operation = Operation.from_db(database.alias(), [field.attname for field in fields], values)
    return Locked(operation, task_state, live_run, now or database.now())


def _from_sqlite(field: Any, value: Any) -> Any:
    """What the ORM would make of a column's value; PostgreSQL's driver hands out Python's types by itself."""
    connection, column = database.connection(), field.get_col(field.model._meta.db_table)
    for convert in connection.ops.get_db_converters(column):
        value = convert(value, column, connection)
    return value


def store(
    *,
    receipts: Sequence[Receipt] = (),
    folded: Operation | None = None,
    call: Call | None = None,
    entry: ContextEntry | None = None,
) -> None:
    """Add receipts, write down what the operation was folded to, and the call with what it admitted.

    An accepted call is there once for a run: where it is already, neither it nor its entry is added again.
    """
    statements = [_insertion(receipts)] if receipts else []
    if folded is not None:
        statements.append(_update(folded))
    if call is not None:
        sql, values = _insertion([call])
        statements.append((f"{sql} ON CONFLICT (operation_id, run) WHERE outcome = 'accepted' DO NOTHING", values))
    if entry is not None:
        statements.append(_insertion([entry], {"call_id": "admitted.id"}))
    if database.is_postgresql():
        _at_once(statements, admitting=entry is not None)
    else:
        _in_turn(statements, admitting=entry is not None)


def add(row: models.Model) -> int:
    """Add one row within a transaction; the answer is its id."""
    sql, values = _insertion([row])
    with database.connection().cursor() as cursor:
        cursor.execute(f"{sql} RETURNING id", values)
        return int(cursor.fetchone()[0])


def add_for_each(found: models.QuerySet[Any], row: models.Model, columns: Mapping[str, str]) -> None:
    """Add such a row for each that is found; `columns` names those columns of it that are taken from what is found."""
    sql, values = _insertion([row], {name: f"found.{column}" for name, column in columns.items()})
    inner, more = found.values(*columns.values()).query.sql_with_params()
    with database.connection().cursor() as cursor:
        cursor.execute(f"{sql} FROM ({inner}) AS found", [*values, *more])


_Statement = tuple[str, list[Any]]


def _at_once(statements: list[_Statement], *, admitting: bool) -> None:
    """All in one statement; the entry, which is last, takes its call's id from the statement before it."""
    *others, (last, values) = statements
    named = [(f"s{number}", sql) for number, (sql, _) in enumerate(others)]
    if admitting:
        named[-1] = ("admitted", f"{named[-1][1]} RETURNING id")
        last += " FROM admitted"
    ahead = ", ".join(f"{name} AS ({sql})" for name, sql in named)
    with database.connection().cursor() as cursor:
        cursor.execute(f"WITH {ahead} {last}" if ahead else last, [v for _, each in others for v in each] + values)


def _in_turn(statements: list[_Statement], *, admitting: bool) -> None:
    with database.connection().cursor() as cursor:
        for sql, values in statements[:-1] if admitting else statements:
            cursor.execute(sql, values)
        if admitting and cursor.rowcount:
            sql, values = statements[-1]
            cursor.execute(f"{sql} FROM (SELECT last_insert_rowid() AS id) AS admitted", values)


def _insertion(rows: Sequence[models.Model], computed: Mapping[str, str] | None = None) -> _Statement:
    """The rows by VALUES; or one row by SELECT, where some columns are computed from what FROM names."""
    table, fields = rows[0]._meta.db_table, [field for field in rows[0]._meta.concrete_fields if not field.primary_key]
    head = f"INSERT INTO {table} ({', '.join(str(field.column) for field in fields)})"
    if computed is not None:
        cells = ", ".join(computed.get(field.attname, "%s") for field in fields)
        return f"{head} SELECT {cells}", _values(rows[0], [field for field in fields if field.attname not in computed])
    cells = ", ".join(["%s"] * len(fields))
    values = [value for row in rows for value in _values(row, fields)]
    return f"{head} VALUES {', '.join([f'({cells})'] * len(rows))}", values


def _update(operation: Operation) -> _Statement:
    table, fields = (
        operation._meta.db_table,
        [field for field in operation._meta.concrete_fields if field.name in FOLDED],
    )
    columns = ", ".join(f"{field.column} = %s" for field in fields)
    values = [*_values(operation, fields), operation.pk]
    return f"UPDATE {table} SET {columns} WHERE id = %s", values  # noqa: S608  our own names, values apart


def _values(row: models.Model, fields: Sequence[models.Field[Any, Any]]) -> list[Any]:
    connection = database.connection()
    return [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
