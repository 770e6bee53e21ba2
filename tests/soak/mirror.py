"""The tables as plain values, read with statements of the test's own; and what may never happen to a stored fact."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.db import connection, models

from agentstop import models as tables


class Violation(AssertionError):
    """A promise that did not hold."""


@dataclass(frozen=True, slots=True)
class Row:
    id: int


@dataclass(frozen=True, slots=True)
class Task(Row):
    owner_id: int | None
    state: str
    live_run: int | None
    last_run: int
    stopped_at: datetime | None
    late_stop_id: int | None


@dataclass(frozen=True, slots=True)
class Run(Row):
    task_id: int
    number: int
    state: str
    began_at: datetime
    ended_at: datetime | None
    seen_at: datetime
    halted_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class Operation(Row):
    task_id: int
    key: str
    incarnation: int
    compensates_id: int | None
    action: str
    digest: str
    idempotency_key: str
    attempts: int
    resend_until: datetime | None
    state: str
    cancellation: str
    contradictory: bool
    doubled: bool
    another_open: bool
    ref: str
    folded_at: datetime
    due_at: datetime | None
    follow_up_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Decision(Row):
    task_id: int
    operation_id: int | None
    run: int | None
    verb: str
    effect: str
    by_id: int | None
    reason: str
    until: datetime | None
    detail: Any
    count: int
    at: datetime

    def __str__(self) -> str:
        return f"decision {self.verb} {self.effect}" + (f" {self.reason}" if self.verb == "refuse" else "")


@dataclass(frozen=True, slots=True)
class Attempt(Row):
    operation_id: int
    verb: str
    number: int
    run: int | None
    passed_at: datetime
    lease_until: datetime
    settling: timedelta
    max_age: timedelta
    ref: str

    @property
    def settled_at(self) -> datetime:
        return self.lease_until + self.settling

    def __str__(self) -> str:
        return f"attempt {self.verb}"


@dataclass(frozen=True, slots=True)
class Receipt(Row):
    operation_id: int
    attempt_id: int | None
    claim: str
    source: str
    asked_at: datetime
    seen_at: datetime
    ref: str
    authoritative: bool

    def __str__(self) -> str:
        return f"receipt {self.claim} {self.source}"


@dataclass(frozen=True, slots=True)
class Call(Row):
    operation_id: int
    run: int
    outcome: str
    error: str
    admitted_at: datetime | None
    at: datetime

    def __str__(self) -> str:
        return f"call {self.outcome}"


@dataclass(frozen=True, slots=True)
class ContextEntry(Row):
    task_id: int
    run: int
    call_id: int
    body: str
    at: datetime

    def __str__(self) -> str:
        return "entry"


@dataclass(frozen=True, slots=True)
class Freeze(Row):
    connector: str
    action: str
    of_owner: bool
    owner_id: int | None
    lifts_id: int | None
    effect: str
    by_id: int | None
    until: datetime | None
    at: datetime
    epoch: int | None
    in_force_at: datetime | None
    lifted_at: datetime | None

    def __str__(self) -> str:
        return f"{'freeze' if self.lifts_id is None else 'lift'} {self.effect}"

    def holds_at(self, at: datetime) -> bool:
        return self.epoch is not None and self.lifted_at is None and (self.until is None or self.until > at)

    def covers(self, connector: str, action: str, owner: int | None) -> bool:
        named = self.connector in ("", connector) and self.action in ("", action)
        return named and (not self.of_owner or self.owner_id == owner)


KINDS: tuple[type[Row], ...] = (Task, Run, Operation, Decision, Attempt, Receipt, Call, ContextEntry, Freeze)
FACTS: tuple[type[Row], ...] = (Decision, Attempt, Receipt, Call, ContextEntry, Freeze)
R = TypeVar("R", bound=Row)


@dataclass
class Mirror:
    """All rows at one moment, `at` by the database's clock."""

    at: datetime
    rows: dict[type[Row], dict[int, Row]] = field(default_factory=dict)
    raw: dict[type[Row], dict[int, tuple[Any, ...]]] = field(default_factory=dict)
    _by_operation: dict[tuple[type[Row], int], list[Any]] = field(default_factory=lambda: defaultdict(list))

    def all(self, kind: type[R]) -> list[R]:
        return list(self.rows.get(kind, {}).values())  # type: ignore[arg-type]

    def get(self, kind: type[R], pk: int) -> R:
        return self.rows[kind][pk]  # type: ignore[return-value]

    def of(self, kind: type[R], operation: int) -> list[R]:
        """The facts of one operation, in the order in which they were stored."""
        return self._by_operation.get((kind, operation), [])

    def submits(self, operation: int) -> list[Attempt]:
        return [attempt for attempt in self.of(Attempt, operation) if attempt.verb == "submit"]

    def incarnations(self, task: int, key: str) -> list[Operation]:
        found = [one for one in self.all(Operation) if one.task_id == task and one.key == key]
        return sorted(found, key=lambda one: one.incarnation)

    def run(self, task: int, number: int | None) -> Run | None:
        return next((run for run in self.all(Run) if run.task_id == task and run.number == number), None)


def read(before: Mirror | None = None) -> Mirror:
    """Everything that is stored now; what has not changed is not made anew."""
    mirror = Mirror(datetime.now(UTC))
    for kind in KINDS:
        known = before.raw.get(kind, {}) if before is not None else {}
        raw, rows = mirror.raw.setdefault(kind, {}), mirror.rows.setdefault(kind, {})
        for values in _select(kind):
            pk = values[0]
            raw[pk] = values
            same = before is not None and known.get(pk) == values
            rows[pk] = before.rows[kind][pk] if same and before is not None else kind(*_python(kind, values))
            if (operation := getattr(rows[pk], "operation_id", None)) is not None:
                mirror._by_operation[kind, operation].append(rows[pk])
    return mirror


def _columns(kind: type[Row]) -> list[models.Field[Any, Any]]:
    known = {each.attname: each for each in getattr(tables, kind.__name__)._meta.concrete_fields}
    return [known[each.name] for each in fields(kind)]


_sql: dict[type[Row], str] = {}
_converters: dict[type[Row], list[Any]] = {}


def _select(kind: type[Row]) -> list[tuple[Any, ...]]:
    if kind not in _sql:
        columns = ", ".join(f'"{each.column}"' for each in _columns(kind))
        _sql[kind] = f"SELECT {columns} FROM {getattr(tables, kind.__name__)._meta.db_table} ORDER BY id"  # noqa: S608
        _converters[kind] = [_CONVERT.get(type(each), _same) for each in _columns(kind)]
    with connection.cursor() as cursor:
        cursor.execute(_sql[kind])
        return [tuple(row) for row in cursor.fetchall()]


def _python(kind: type[Row], values: tuple[Any, ...]) -> list[Any]:
    return [None if v is None else convert(v) for convert, v in zip(_converters[kind], values, strict=True)]


def _same(value: Any) -> Any:
    return value


def _moment(value: Any) -> datetime:
    found: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_CONVERT: dict[type[Any], Any] = {
    models.DateTimeField: _moment,
    models.DurationField: lambda v: timedelta(microseconds=v) if isinstance(v, int) else v,
    models.UUIDField: lambda v: v.hex if isinstance(v, UUID) else v,
    models.JSONField: lambda v: json.loads(v) if isinstance(v, str) else v,
    models.BooleanField: bool,
}


def added(before: Mirror, after: Mirror) -> list[str]:
    """What was added, in words."""
    return sorted(
        str(row) for kind in FACTS for pk, row in after.rows[kind].items() if pk not in before.rows.get(kind, {})
    )


def require_only_additions(before: Mirror, after: Mirror) -> None:
    """Nothing vanishes, and what is written later moves one way."""
    for kind in KINDS:
        for pk, old in before.rows.get(kind, {}).items():
            new = after.rows[kind].get(pk)
            if new is None:
                raise Violation(f"{old!r} has vanished")
            if new is not old and new != old and not _may_become(old, new):
                raise Violation(f"{old!r} has become {new!r}")


def _may_become(old: Row, new: Row) -> bool:
    if isinstance(old, Attempt) and isinstance(new, Attempt):
        return replace(new, lease_until=old.lease_until) == old and new.lease_until > old.lease_until
    if isinstance(old, Decision) and isinstance(new, Decision):
        return old.verb == "refuse" and replace(new, count=old.count) == old and new.count > old.count
    if isinstance(old, Run) and isinstance(new, Run):
        ended = old.state == "live" or (new.state, new.ended_at) == (old.state, old.ended_at)
        told = old.halted_at in (None, new.halted_at) and old.error in ("", new.error)
        return ended and told and new.began_at == old.began_at and new.seen_at >= old.seen_at
    if isinstance(old, Freeze) and isinstance(new, Freeze):
        reached, lifted = old.in_force_at in (None, new.in_force_at), old.lifted_at in (None, new.lifted_at)
        return reached and lifted and replace(new, in_force_at=old.in_force_at, lifted_at=old.lifted_at) == old
    if isinstance(old, Task) and isinstance(new, Task):
        return new.owner_id == old.owner_id and new.last_run >= old.last_run
    if isinstance(old, Operation) and isinstance(new, Operation):
        named = ("task_id", "key", "incarnation", "compensates_id", "action", "digest", "idempotency_key", "created_at")
        same = all(getattr(old, name) == getattr(new, name) for name in named)
        fixed = old.resend_until in (None, new.resend_until)
        return same and fixed and new.attempts >= old.attempts and new.folded_at >= old.folded_at
    return False


def moved_back(mirror: Mirror, by: timedelta) -> Iterator[tuple[type[Row], Row]]:
    """Every fact as it must read after the time machine."""
    for kind in FACTS:
        for row in mirror.rows[kind].values():
            again: Any = kind
            values = [getattr(row, each.name) for each in fields(row)]
            yield kind, again(*(value - by if isinstance(value, datetime) else value for value in values))
