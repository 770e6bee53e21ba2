"""The one place that knows which database is used, its clock, its locks and what is unsafe about it."""

from __future__ import annotations

import functools
import json
import random
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, cast

from django.apps import apps
from django.db import InternalError, OperationalError, connections, models, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL

from agentstop.exceptions import GateInTransaction, UnsafeDatabase

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound=models.Model)
T = TypeVar("T")

BATCH = 500  # rows named in one statement: SQLite bounds the number of parameters
TOO_LARGE = 2**63  # for an id
STALLED = 10_000  # milliseconds for which a transaction of ours may lie idle; it takes a few

_checked: weakref.WeakSet[Any] = weakref.WeakSet()


def alias() -> str:
    """The name of the database that holds agentstop's tables."""
    return router.db_for_write(_task())


@functools.cache
def _task() -> type[models.Model]:
    return apps.get_model("agentstop", "Task")


def connection() -> BaseDatabaseWrapper:
    return connections[alias()]


def is_postgresql() -> bool:
    return connection().vendor == "postgresql"


def close_spent_connections() -> None:
    """In a thread of our own: close what is broken, of age, or lent by a pool.

    CONN_MAX_AGE = 0 closes at the end of a request; here is none, and a new connection costs more than most receipts.
    """
    for conn in connections.all(initialized_only=True):
        if conn.settings_dict["OPTIONS"].get("pool"):
            conn.close()
        elif conn.settings_dict["CONN_MAX_AGE"] != 0 or _spoilt(conn):
            conn.close_if_unusable_or_obsolete()


def _spoilt(conn: BaseDatabaseWrapper) -> bool:
    return conn.errors_occurred or conn.autocommit != conn.settings_dict["AUTOCOMMIT"]


def has_connections() -> bool:
    """Whether this thread holds an open one."""
    return any(conn.connection is not None for conn in connections.all(initialized_only=True))


def now() -> datetime:
    """The database's clock at this moment (not at the start of the transaction)."""
    if not is_postgresql():
        return datetime.now(UTC)  # SQLite lives on this machine: its clock is ours
    with connection().cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    return cast(datetime, moment)


def moment(value: Any) -> Any:
    """A time that a statement of our own has read: SQLite hands it out as text, or without its zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=connection().timezone)
    return value


def duration(value: Any) -> Any:
    """A length of time that a statement of our own has read: SQLite hands it out as microseconds."""
    return timedelta(microseconds=value) if isinstance(value, int) else value


def locked(queryset: models.QuerySet[M]) -> models.QuerySet[M]:
    """The rows, locked in the order of their ids until the transaction ends (on SQLite the whole file is)."""
    return queryset.using(alias()).order_by("pk").select_for_update(no_key=True, of=("self",))


def each(table: str, alias: str, on: str) -> str:
    """A join that is looked up for each row so far, whatever the planner believes of tables that have just grown.

    One that it may turn around reads the whole table for every row once its statistics are stale.
    """
    if is_postgresql():
        return f"CROSS JOIN LATERAL (SELECT * FROM {table} AS {alias} WHERE {on} OFFSET 0) AS {alias}"  # noqa: S608
    return f"CROSS JOIN {table} AS {alias} ON {on}"  # SQLite keeps the order of a cross join


def go_by_index() -> None:
    """Until the end of this transaction PostgreSQL takes indexes, whatever it believes of tables that have just grown.

    Where it believes that one parent has all links, it would read all of them for each. Compiling costs seconds.
    """
    if is_postgresql():
        with connection().cursor() as cursor:
            cursor.execute("SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)")


def in_outer_transaction() -> bool:
    """Whether a caller's transaction is open, other than the one that Django's `TestCase` wraps around a test."""
    conn = connection()
    if not conn.in_atomic_block:
        return not conn.get_autocommit()
    return not all(getattr(block, "_from_testcase", False) for block in conn.atomic_blocks)


def require_other_threads_to_see() -> None:
    """Refuse to send from within Django's `TestCase`: the threads that send would not see what the test has written."""
    if connection().in_atomic_block:
        require_own_transaction()
        raise GateInTransaction(
            "run.call() sends on other threads, which do not see the transaction of a TestCase. Use "
            "TransactionTestCase, or pytest.mark.django_db(transaction=True); run.dispatch() works in TestCase too."
        )


def require_own_transaction() -> None:
    """Refuse to go on where a caller's rollback could undo what the outside world has already seen."""
    if in_outer_transaction():
        raise GateInTransaction(
            f"agentstop was called inside an open transaction on database {alias()!r}: if that rolled back, something "
            "sent would have no record. Call it outside transaction.atomic(), and mark the view "
            "@transaction.non_atomic_requests where ATOMIC_REQUESTS is set."
        )
    _require_safe(connection())


@contextmanager
def durable(*, limited: bool = True) -> Iterator[None]:
    """One transaction that is committed when the block is left, and never part of another one.

    It holds no lock in its sleep: with `limited=False` because its first statement reads `idle_limit` itself.
    """
    require_own_transaction()
    with transaction.atomic(using=alias()):
        if limited:
            limit_idleness()
        yield


def batches(rows: Sequence[T], many: int = BATCH) -> Iterator[Sequence[T]]:
    """These in their order, as many at once as one statement may name."""
    for start in range(0, len(rows), many):
        yield rows[start : start + many]


def named(ids: Collection[int]) -> tuple[str, list[Any]]:
    """A statement that gives these ids as its rows: one value, since a database bounds how many there may be."""
    if is_postgresql():
        return "SELECT id FROM unnest(%s::bigint[]) AS named(id)", [list(ids)]
    return "SELECT value AS id FROM json_each(%s)", [json.dumps(list(ids))]


def by_id(model: type[M], ids: Collection[int]) -> models.QuerySet[M]:
    """The rows with these ids, however many; what is no id of any row is left out."""
    found = sorted({pk for pk in ids if 0 < pk < TOO_LARGE})
    rows = model._default_manager.using(alias())
    return rows.filter(pk__in=found if len(found) <= BATCH else RawSQL(*named(found)))  # noqa: S611  our own names


def limit_idleness() -> None:
    """From here on PostgreSQL rolls this transaction back if it lies idle: its process is frozen, or its machine gone.

    A stop would wait for its locks otherwise, for hours where only TCP notices. SQLite's locks end with their process.
    """
    limit = idle_limit()
    if limit != "NULL":
        with connection().cursor() as cursor:
            cursor.execute(f"SELECT {limit}")


def idle_limit() -> str:
    """The same as an expression for a statement; NULL where there is nothing to limit, as in Django's `TestCase`."""
    if not is_postgresql() or any(getattr(block, "_from_testcase", False) for block in connection().atomic_blocks):
        return "NULL"
    return f"set_config('idle_in_transaction_session_timeout', '{STALLED}', true)"


def _require_safe(conn: BaseDatabaseWrapper) -> None:
    """Isolation and durability are what the gate's promise rests on; the server is asked once for each connection."""
    if conn.vendor == "sqlite":
        _require_immediate(conn)
    elif conn.vendor == "postgresql":
        conn.ensure_connection()
        if conn.connection not in _checked:
            _require_read_committed(conn)
            _checked.add(conn.connection)
    else:
        raise UnsafeDatabase(f"agentstop needs PostgreSQL or SQLite; database {conn.alias!r} is {conn.vendor}.")


def _require_immediate(conn: BaseDatabaseWrapper) -> None:
    if getattr(conn, "transaction_mode", None) != "IMMEDIATE":
        raise UnsafeDatabase(
            f"SQLite database {conn.alias!r} starts transactions without a lock. "
            'Set OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 30} for it.'
        )


def _require_read_committed(conn: BaseDatabaseWrapper) -> None:
    with conn.cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')")
        isolation, synchronous = cursor.fetchone()
    if isolation != "read committed":
        raise UnsafeDatabase(
            f"Database {conn.alias!r} runs at isolation level {isolation!r}: the gate would read a stop from an old "
            "snapshot. Remove OPTIONS['isolation_level'] for it (READ COMMITTED is PostgreSQL's default)."
        )
    if synchronous == "off":
        raise UnsafeDatabase(
            f"Database {conn.alias!r} has synchronous_commit off: a crash could lose the record of something sent. "
            "Set it to on for this role or database."
        )


class StartOver(OperationalError):
    """Raised within a retried transaction that has to begin anew: what it has locked is no longer what it meant."""


def retried(function: Callable[P, R]) -> Callable[P, R]:
    """Run it again where the database gave up: a deadlock, a busy file, a long sleep. What it did was rolled back."""

    @functools.wraps(function)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(6):
            try:
                return function(*args, **kwargs)
            except (OperationalError, InternalError) as error:
                if tried == 5 or not _passing(error) or in_outer_transaction():
                    raise
                time.sleep(random.uniform(0, 0.02 * 2**tried))  # noqa: S311  jitter, not a secret
        raise AssertionError("unreachable")

    return again


def _passing(error: OperationalError | InternalError) -> bool:
    if isinstance(error, StartOver):
        return True
    state = getattr(error.__cause__, "sqlstate", "")
    return state in {"40001", "40P01", "25P03"} or "database is locked" in str(error)
