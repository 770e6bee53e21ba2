"""Tells a host of unknown outcomes that were settled after everybody whom it concerns had left the page.

Once for a task and a burst of settlements: when nothing more has been settled for a while. The worker asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Max, Min, Q

from agentstop import database, permissions, telling
from agentstop.models import Look, Operation, Task, Unseen

logger = logging.getLogger(__name__)

QUIET = timedelta(seconds=20)  # without a settlement, after which a burst is over
LONGEST = timedelta(minutes=5)  # that a burst is waited for
MOST = 50  # tasks of a turn
SHOWN_WITHIN = timedelta(seconds=1)  # a settlement is on an open page


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that could not be told of: it lets the others go first, for longer each time."""

    wait: timedelta
    again_at: datetime

    def once_more(self, now: datetime) -> Failed:
        wait = min(2 * self.wait, LONGEST_WAIT)
        return Failed(wait, now + wait)


NEVER = Failed(timedelta(seconds=10), datetime.min.replace(tzinfo=UTC))
LONGEST_WAIT = timedelta(hours=1)
_failed: dict[int, Failed] = {}  # of this process, by task


def looked(task_id: int, user: Any) -> None:
    """Somebody has a live page of this closed task open now."""
    if telling.asks_for_unseen():
        row = Look(task_id=task_id, user_id=user, seen_at=database.now())
        Look.objects.using(database.alias()).bulk_create(
            [row], update_conflicts=True, unique_fields=["task", "user"], update_fields=["seen_at"]
        )


def tell() -> int:
    """Tell of the bursts that are over: of how many tasks. Where the host's rule raises, of the others all the same."""
    if not telling.asks_for_unseen():
        return 0
    now = database.now()
    bursts = (
        Unseen.objects.using(database.alias()).values("task").annotate(first=Min("settled_at"), last=Max("settled_at"))
    )
    over = bursts.filter(Q(last__lte=now - QUIET) | Q(first__lte=now - LONGEST)).order_by("first", "task")
    over = over.exclude(task__in=[task for task, failed in _failed.items() if failed.again_at > now])
    return sum(_told(burst["task"]) for burst in over[:MOST])


def _told(task_id: int) -> bool:
    try:
        told = _tell(task_id)
        _failed.pop(task_id, None)
        return told
    except Exception:
        _failed[task_id] = _failed.get(task_id, NEVER).once_more(database.now())
        extra = {"action": "unseen_failed", "task": task_id}
        logger.exception("who has missed a settlement was not told of it; trying again", extra=extra)
        return False


@database.retried
def _tell(task_id: int) -> bool:
    """One worker does it: the rows are locked, and gone with the commit with which it is told."""
    with database.durable():
        rows = list(database.locked(Unseen.objects.filter(task=task_id)))
        Unseen.objects.using(database.alias()).filter(pk__in=[row.pk for row in rows]).delete()
        operations = _still_settled(row.operation_id for row in rows)
        if not operations:
            return False
        at = max(row.settled_at for row in rows)
        task = Task.objects.using(database.alias()).select_related("owner", "stopped_by").get(pk=task_id)
        people = _who_was_away(task, at)
        if people:
            telling.of_unseen(task_id, operations, people, at)
        return bool(people)


def _still_settled(operations: Iterable[int]) -> tuple[int, ...]:
    """Those of which the outcome has not become unknown again meanwhile."""
    rows = Operation.objects.using(database.alias()).filter(pk__in=list(operations), state__in=telling.SETTLED)
    return tuple(rows.order_by("pk").values_list("pk", flat=True))


def _who_was_away(task: Task, at: datetime) -> tuple[Any, ...]:
    """Who stopped it and its owner, where they may see it and had no page of it open that showed it."""
    looks = Look.objects.using(database.alias()).filter(task=task, seen_at__gte=at + SHOWN_WITHIN)
    present = set(looks.values_list("user", flat=True))
    people: Sequence[Any] = [each for each in (task.stopped_by, task.owner) if each is not None and each.is_active]
    away = (each for each in people if each.pk not in present and permissions.may(each, "view_task", task))
    return tuple(dict.fromkeys(each.pk for each in away))
