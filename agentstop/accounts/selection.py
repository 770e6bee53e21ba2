"""Which operations of a task are read one by one, and what is counted of the rest: a task may have ten thousand.

What may still have its effect comes first, the newest before the older, and then what is new. The rest is grouped by
the database. Of it time alone may have made something else than what is stored: where that is due, something under way
counts as unknown, which claims no more than is known; read one by one, it is told exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BooleanField, Case, Count, Max, Min, Q, QuerySet, Value, When, Window
from django.db.models.functions import RowNumber

from agentstop import database
from agentstop.closing import MAY_GO_ON, THAT_MAY_GO_ON
from agentstop.composed import Composed
from agentstop.models import Attempt, Operation
from agentstop.states import OPEN_STATES, Cancellation, OperationState, Verb


@dataclass(frozen=True, slots=True)
class Choice:
    """How many operations of each task are read, the newest of each kind; None: all of them."""

    open: int | None = None  # that may still have their effect
    others: int | None = None
    also: tuple[int, ...] = ()  # these, whatever they are
    late: bool = False  # of the open ones only those that time alone may have changed since they were stored

    @property
    def whole(self) -> bool:
        return self.open is None and self.others is None and not self.late


TASKS = 100  # in one statement: SQLite puts no more than 500 parts together
WHOLE = Choice()
PANEL = Choice(open=200, others=100)
PICTURE = Choice(open=200, others=300)
ROW = Choice(open=100, others=0, late=True)  # a row of a list names no operation: the counts are enough


def only(operations: Collection[int]) -> Choice:
    """These alone."""
    return Choice(open=0, others=0, also=tuple(operations))


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that are alike and were counted, not read. `asked`: to cancel; `undoing`: each undoes another one."""

    state: OperationState
    asked: bool
    undoing: bool
    is_open: bool
    connector: str
    action: str
    many: int


@dataclass(frozen=True, slots=True)
class Rest:
    """What was not read one by one."""

    groups: tuple[Group, ...] = ()
    heard_at: datetime | None = None  # when one of them was last sent, where that is the last sign of life
    overdue: int = 0
    moments: tuple[datetime, ...] = ()  # at which time alone changes what is told of them

    @property
    def waits(self) -> bool:
        """Whether a sender holds one of them."""
        return any(group.state is OperationState.SENDING for group in self.groups)

    @property
    def goes_on(self) -> bool:
        """Whether one of them may still have its effect."""
        return any(group.is_open for group in self.groups)

    @property
    def unsure(self) -> bool:
        """Whether the outcome of one of them is unknown."""
        return any(group.state is OperationState.UNKNOWN for group in self.groups)

    @property
    def used(self) -> frozenset[tuple[str, str]]:
        """The connectors and actions of all of them."""
        return frozenset((group.connector, group.action) for group in self.groups)


NOTHING = Rest()


@dataclass
class _Found:
    """What is gathered about one task."""

    groups: list[Group] = field(default_factory=list)
    leased: datetime | None = None
    overdue: int = 0
    moments: list[datetime] = field(default_factory=list)


def rows(task_ids: Collection[int], choice: Choice, now: datetime) -> list[Operation]:
    """The operations that are read of these tasks, in the order of their ids."""
    if not task_ids:
        return []
    if choice.whole or choice.late:
        found = Operation.objects.using(database.alias()).filter(task__in=task_ids)
        return list((_late(found, choice, now) if choice.late else found).select_related("compensates").order_by("pk"))
    return sorted(_NAMED.rows(_chosen(task_ids, choice), database.alias()), key=lambda row: row.pk)


def _late(found: QuerySet[Operation], choice: Choice, now: datetime) -> QuerySet[Operation]:
    """Hardly any: whoever follows up looks at what is due."""
    place = Window(RowNumber(), partition_by="task", order_by="-pk")
    return found.filter(MAY_GO_ON, due_at__lte=now).annotate(place=place).filter(place__lte=choice.open)


_NAMED = Composed(lambda ids: Operation.objects.filter(pk__in=ids).select_related("compensates"))

# What undoes something is newer than that: of what is new it is among them, unless it is settled and that open.
CHOSEN = """
WITH opened AS ({opened})
SELECT id FROM opened UNION {others} UNION SELECT undoing.id FROM {operation} AS undoing
WHERE undoing.compensates_id IN (SELECT id FROM opened){also}
"""
NEWEST = "SELECT id FROM (SELECT own.id FROM {operation} AS own WHERE own.task_id = %s AND {kind} "
NEWEST += "ORDER BY own.id DESC{limit}) AS newest_{number}"
ALSO = " UNION SELECT one.id FROM {operation} AS one WHERE one.task_id IN ({tasks}) AND "
ALSO += "(one.id IN ({ids}) OR one.compensates_id IN ({ids}))"


def _chosen(task_ids: Collection[int], choice: Choice) -> list[int]:
    """The ids of what is read, for many tasks in one statement, which the ORM would compose for as long as it runs."""
    found: list[int] = []
    for batch in database.batches(list(task_ids), TASKS):
        operation = Operation._meta.db_table
        opened, others = (
            " UNION ALL ".join(_newest(operation, kind, many, number) for number, _ in enumerate(batch))
            for kind, many in ((THAT_MAY_GO_ON, choice.open), (f"NOT {THAT_MAY_GO_ON}", choice.others))
        )
        also, params = "", [*batch, *batch]
        if choice.also:
            tasks, ids = (", ".join(["%s"] * len(values)) for values in (batch, choice.also))
            also = ALSO.format(operation=operation, tasks=tasks, ids=ids)
            params += [*batch, *choice.also, *choice.also]
        with database.connection().cursor() as cursor:
            cursor.execute(CHOSEN.format(opened=opened, others=others, operation=operation, also=also), params)
            found += [pk for (pk,) in cursor.fetchall()]
    return found


def _newest(operation: str, kind: str, many: int | None, number: int) -> str:
    limit = f" LIMIT {many}" if many is not None else ""
    return NEWEST.format(operation=operation, kind=kind, limit=limit, number=number)


def is_all(read: Sequence[Operation], choice: Choice) -> bool:
    """Whether what was read of one task is evidently all that there is."""
    if choice.whole:
        return True
    if choice.late or choice.also or not choice.open or not choice.others:
        return False
    opened = sum(operation.is_open for operation in read)
    return opened < choice.open and len(read) - opened < choice.others


def rest(
    seen: Mapping[int, datetime], read: Sequence[Operation], now: datetime, overdue: timedelta
) -> Mapping[int, Rest]:
    """What there is of these tasks beside the operations that were read. `seen`: each agent's last sign of life."""
    found: dict[int, _Found] = defaultdict(_Found)
    for row in _grouped(list(seen), read, now, overdue):
        _add(found[row["task"]], row, overdue)
    heard = _heard([pk for pk, one in found.items() if one.leased is not None and one.leased > seen[pk]], seen)
    return {pk: Rest(tuple(one.groups), heard.get(pk), one.overdue, tuple(one.moments)) for pk, one in found.items()}


def _grouped(
    task_ids: Collection[int], read: Sequence[Operation], now: datetime, overdue: timedelta
) -> QuerySet[Any, Any]:
    """One row for each kind of them."""
    others = Operation.objects.using(database.alias()).filter(task__in=task_ids)
    kinds = others.exclude(pk__in=[operation.pk for operation in read]).annotate(
        asked=_whether(~Q(cancellation=Cancellation.NONE)),
        undoing=_whether(Q(compensates__isnull=False)),
        late=_whether(Q(due_at__lte=now)),
    )
    alike = kinds.values("task", "state", "another_open", "asked", "undoing", "late", "connector", "action")
    return alike.annotate(
        many=Count("pk"),
        leased=Max("lease_until"),
        due=Min("due_at", filter=Q(due_at__gt=now)),
        overdue=Count("pk", filter=Q(follow_up_at__lt=now - overdue)),
        follow_up=Min("follow_up_at", filter=Q(follow_up_at__gte=now - overdue)),
    ).order_by()


def _whether(condition: Q) -> Case:
    return Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())


def _add(found: _Found, row: Mapping[str, Any], overdue: timedelta) -> None:
    state = OperationState(row["state"])
    under_way = state in OPEN_STATES
    found.groups.append(
        Group(
            state=OperationState.UNKNOWN if row["late"] and under_way else state,
            asked=row["asked"],
            undoing=row["undoing"],
            is_open=under_way or row["another_open"],
            connector=row["connector"],
            action=row["action"],
            many=row["many"],
        )
    )
    found.leased = max(filter(None, (found.leased, row["leased"])), default=None)
    found.overdue += row["overdue"]
    if row["due"] is not None:
        found.moments.append(row["due"])
    if row["follow_up"] is not None:
        found.moments.append(row["follow_up"] + overdue)


def _heard(task_ids: Sequence[int], seen: Mapping[int, datetime]) -> Mapping[int, datetime]:
    """When something of these tasks was last sent after the agent's last sign of life otherwise."""
    if not task_ids:
        return {}
    since = min(seen[pk] for pk in task_ids)
    sent = Attempt.objects.using(database.alias()).filter(
        operation__task__in=task_ids, operation__lease_until__gt=since, passed_at__gt=since, verb=Verb.SUBMIT
    )
    return dict(sent.values_list("operation__task").annotate(last=Max("passed_at")).order_by())
