"""What is frozen, as far as this process knows, and the clock by which the gate tells that it knows too little.

A process keeps the freezes that it has read, and the clock's epoch of that moment. A freeze moves the clock, then each
task that it could be about; so a task of a later epoch than the process's own is refused by the gate's statement until
the process has read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from agentstop import database
from agentstop.exceptions import Frozen
from agentstop.models import Freeze, FreezeClock, Task
from agentstop.states import TaskState

ALIVE = (TaskState.ACTIVE, TaskState.PAUSED)
CLOCK = 1  # the id of its only row
SHARE = "SELECT epoch FROM {clock} WHERE id = %s FOR SHARE"
READ = "SELECT epoch FROM {clock} WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Known:
    """The freezes that were in force when they were read, those that are being put in force among them."""

    epoch: int
    freezes: tuple[Freeze, ...]

    def holding(self, connector: str, action: str, owner: Callable[[], Any]) -> Freeze | None:
        """The first of them that holds this action; the owner's id is asked for only where it plays a part."""
        for freeze in self.freezes:
            owner_id = owner() if freeze.of_owner else None
            if freeze.covers(connector, action, owner_id):
                return freeze
        return None


_known: dict[str, Known] = {}  # by the alias of the database


def known() -> Known:
    """What this process has read last. It may be old: good for tasks of no later epoch, and no reason to refuse."""
    found = _known.get(database.alias())
    return found if found is not None else read(database.now())


def read(now: datetime) -> Known:
    """Read anew what is in force at this moment; the process knows it from now on.

    An end that has come is written down, and holds from then on: a clock that goes back un-ends nothing here and not
    there.
    """
    # The clock first: what a freeze has committed together with it is then among the freezes.
    epoch = FreezeClock.objects.using(database.alias()).filter(pk=CLOCK).values_list("epoch", flat=True).first() or 0
    applied = list(_not_over())
    ended = [one.pk for one in applied if one.has_ended(now)]
    if ended:
        rows = Freeze.objects.using(database.alias()).filter(pk__in=ended, over_at__isnull=True)
        rows.update(over_at=now)
    found = Known(epoch, tuple(one for one in applied if not one.has_ended(now)))
    _known[database.alias()] = found
    return found


def seen(now: datetime) -> Known:
    """The same for those who only look: they end nothing, and no gate goes by it."""
    return Known(0, tuple(in_force(now)))


def in_force(now: datetime) -> QuerySet[Freeze]:
    """The freezes that hold something at this moment, or are being put in force."""
    return _not_over().exclude(until__lte=now)


def _not_over() -> QuerySet[Freeze]:
    """Those that nobody has lifted, and whose end no gate has found to have come."""
    applied = Freeze.objects.using(database.alias()).filter(epoch__isnull=False, lifted_at__isnull=True)
    return applied.filter(over_at__isnull=True).select_related("by", "owner").order_by("pk")


def about(task: Task, freezes: Iterable[Freeze], asked: Iterable[tuple[str, str]]) -> tuple[Freeze, ...]:
    """Those of these freezes by which the task is affected: it could send, and has `asked` for what they hold, if ever.

    `asked`: connector and action of its operations. A freeze that names neither affects it from the beginning.
    """
    if task.state not in ALIVE:
        return ()
    wanted = {("", ""), *asked}
    return tuple(one for one in freezes if any(one.covers(*each, task.owner_id) for each in wanted))


def owner_of(task_id: int) -> Any:
    """The id of the task's owner."""
    return Task.objects.using(database.alias()).filter(pk=task_id).values_list("owner_id", flat=True).first()


def refusal(freeze: Freeze, connector: str, action: str, operation: int | None = None) -> Frozen:
    """The refusal that says who holds it, since when, why, and until when."""
    by = freeze.by.get_username() if freeze.by is not None else freeze.policy
    end = f"until {freeze.until:%Y-%m-%d %H:%M:%S %Z}" if freeze.until is not None else "until it is lifted"
    error = Frozen(
        f"{action!r} at {connector!r} is held by {by} since {freeze.at:%Y-%m-%d %H:%M:%S %Z}, {end} (freeze "
        f"{freeze.pk}): {freeze.reason} Nothing was sent; ask again then."
    )
    error.operation, error.until = operation, freeze.until
    return error


def share_clock() -> int:
    """Within a transaction, before any other lock: no freeze begins until it ends.

    The answer is the epoch for tasks that become active in it: what is born meanwhile would escape otherwise.
    """
    sql = SHARE if database.is_postgresql() else READ
    while (epoch := _clock(sql)) is None:
        _make_clock()
    return epoch


def move_clock() -> tuple[int, datetime]:
    """Within a transaction, before any other lock: the epoch of a new freeze, and the time at which it has the clock.

    An epoch is microseconds since 1970: after a backup was restored, processes and tasks of the time before are older.
    """
    if database.is_postgresql():
        with database.connection().cursor() as cursor:
            # The row's lock alone would be shared by ever new tasks while a freeze waits for it; the table's is fair.
            cursor.execute(f"LOCK TABLE {FreezeClock._meta.db_table} IN EXCLUSIVE MODE")
    _make_clock()
    now, clock = database.now(), FreezeClock.objects.using(database.alias()).get(pk=CLOCK)
    epoch = max(clock.epoch + 1, int(now.timestamp() * 1_000_000))
    FreezeClock.objects.using(database.alias()).filter(pk=CLOCK).update(epoch=epoch)
    return epoch, now


def _clock(sql: str) -> int | None:
    with database.connection().cursor() as cursor:
        cursor.execute(sql.format(clock=FreezeClock._meta.db_table), [CLOCK])
        row = cursor.fetchone()
    return row[0] if row is not None else None


def _make_clock() -> None:
    """The row is made at its first need: tests empty tables, and a migration would not make it again."""
    FreezeClock.objects.using(database.alias()).bulk_create([FreezeClock(pk=CLOCK)], ignore_conflicts=True)
