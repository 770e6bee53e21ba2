"""Who works for whom: the tasks that hang on a run which is over, and those that another live run holds.

Within a transaction that holds the family's lock. First everything that hangs on the run is marked, then what a live
run outside holds is given back, with all that it holds in turn; what is left marked is stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import F, Q

from agentstop import database
from agentstop.models import Decision, ServingLink, Task
from agentstop.states import TaskState

ALIVE = (TaskState.ACTIVE, TaskState.PAUSED)
BATCH = 500  # rows named in one query: SQLite bounds the number of parameters

# LATERAL with OFFSET 0 keeps the plan from depending on statistics, which a fast-growing table does not have.
HANGING = """
WITH RECURSIVE hanging(id, run) AS (
  SELECT child.id, coalesce(child.live_run, child.last_run)
  FROM {link} AS link JOIN {task} AS child ON child.id = link.child_id
  WHERE link.parent_id = %(task)s AND link.parent_run <= %(run)s
    AND child.state IN ('active', 'paused', 'finished') AND NOT child.detached
  UNION
  SELECT below.id, below.run FROM hanging CROSS JOIN LATERAL (
    SELECT child.id, coalesce(child.live_run, child.last_run) AS run
    FROM {link} AS link JOIN {task} AS child ON child.id = link.child_id
    WHERE link.parent_id = hanging.id AND link.parent_run = hanging.run
      AND child.state IN ('active', 'paused', 'finished') AND NOT child.detached OFFSET 0) AS below)
UPDATE {task} SET stop_decision_id = %(decision)s
WHERE id IN (SELECT id FROM hanging) AND state IN ('active', 'paused')
"""

HELD = """
WITH RECURSIVE held(id, run) AS (
  SELECT marked.id, marked.live_run FROM {task} AS marked CROSS JOIN LATERAL (
    SELECT 1 FROM {link} AS link JOIN {task} AS parent ON parent.id = link.parent_id
    WHERE link.child_id = marked.id AND parent.live_run = link.parent_run
      AND parent.stop_decision_id IS DISTINCT FROM %(decision)s LIMIT 1) AS outside
  WHERE marked.stop_decision_id = %(decision)s AND marked.state IN ('active', 'paused')
  UNION
  SELECT below.id, below.run FROM held CROSS JOIN LATERAL (
    SELECT child.id, child.live_run AS run
    FROM {link} AS link JOIN {task} AS child ON child.id = link.child_id
    WHERE link.parent_id = held.id AND link.parent_run = held.run
      AND child.stop_decision_id = %(decision)s OFFSET 0) AS below)
UPDATE {task} SET stop_decision_id = NULL WHERE id IN (SELECT id FROM held)
"""


def mark(task: Task, run: int, decision: Decision) -> None:
    """Mark with this decision every task that works for the run alone, directly or through others."""
    if not ServingLink.objects.using(database.alias()).filter(parent=task, parent_run__lte=run).exists():
        return
    if database.is_postgresql():
        _mark_by_sql(task, run, decision)
    else:
        _mark_in_turn(task, run, decision)


def unmark(decision: Decision) -> None:
    """Take the marks away again, where the tasks are not to be stopped."""
    marked_ones = Task.objects.using(database.alias()).filter(stop_decision=decision, state__in=ALIVE)
    marked_ones.update(stop_decision=None)


def marked(decision: Decision) -> Iterator[Sequence[Task]]:
    """The tasks that this decision marks and that are still to be stopped, in batches."""
    rows = Task.objects.using(database.alias()).filter(stop_decision=decision, state__in=ALIVE).order_by("pk")
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        yield batch
        last = batch[-1].pk


def _mark_by_sql(task: Task, run: int, decision: Decision) -> None:
    tables = {"task": Task._meta.db_table, "link": ServingLink._meta.db_table}
    values = {"task": task.pk, "run": run, "decision": decision.pk}
    with database.connection().cursor() as cursor:
        cursor.execute(HANGING.format(**tables), values)
        cursor.execute(HELD.format(**tables), values)


def _mark_in_turn(task: Task, run: int, decision: Decision) -> None:
    """The same level by level, for SQLite, which has no LATERAL."""
    hanging: set[int] = set()
    wave = {(child.pk, child.last_run) for child in _children_of(((task.pk, run),), at_most=True)}
    while wave:
        hanging |= {pk for pk, _ in wave}
        below = _children_of(wave)
        wave = {(child.pk, child.last_run) for child in below if child.pk not in hanging}
    _set_decision(hanging, decision.pk, state__in=ALIVE)
    held: set[int] = set()
    level = set(_held_from_outside(decision))
    while level:
        held |= {pk for pk, _ in level}
        below = _children_of(level)
        given_back = (child for child in below if child.stop_decision_id == decision.pk)
        level = {(child.pk, child.last_run) for child in given_back if child.pk not in held}
    _set_decision(held, None)


def _children_of(parents: Iterable[tuple[int, int]], *, at_most: bool = False) -> Iterator[Task]:
    """The attached children that serve these runs (`at_most`: these and earlier ones) and have not been stopped."""
    pairs = list(parents)
    for start in range(0, len(pairs), BATCH // 2):
        wanted = Q(pk__in=[])
        for parent, run in pairs[start : start + BATCH // 2]:
            runs = Q(serves__parent_run__lte=run) if at_most else Q(serves__parent_run=run)
            wanted |= Q(serves__parent=parent) & runs
        rows = Task.objects.using(database.alias()).filter(wanted, detached=False)
        yield from rows.exclude(state=TaskState.STOPPED).distinct()


def _held_from_outside(decision: Decision) -> Iterator[tuple[int, int]]:
    rows = Task.objects.using(database.alias()).filter(stop_decision=decision, state__in=ALIVE)
    outside = rows.filter(
        Q(serves__parent__stop_decision__isnull=True) | ~Q(serves__parent__stop_decision=decision),
        serves__parent__live_run=F("serves__parent_run"),
    )
    yield from outside.distinct().values_list("pk", "last_run")


def _set_decision(ids: Iterable[int], decision: int | None, **only: object) -> None:
    chosen = sorted(ids)
    for start in range(0, len(chosen), BATCH):
        rows = Task.objects.using(database.alias()).filter(pk__in=chosen[start : start + BATCH], **only)
        rows.update(stop_decision=decision)


@dataclass(frozen=True, slots=True)
class GoesOn:
    """A task near the stopped ones that was not stopped, and why: `detached`, or `held` by a live run of `by`."""

    task: int
    why: str
    by: int | None = None


def going_on(stopped: Sequence[int]) -> Iterator[GoesOn]:
    """The live children of the stopped tasks, each with the reason why it goes on."""
    for start in range(0, len(stopped), BATCH):
        links = ServingLink.objects.using(database.alias()).filter(
            parent__in=stopped[start : start + BATCH], child__state__in=ALIVE
        )
        for child, detached in links.order_by("child").values_list("child", "child__detached").distinct():
            yield GoesOn(child, "detached") if detached else GoesOn(child, "held", _holder(child))


def _holder(child: int) -> int | None:
    links = ServingLink.objects.using(database.alias()).filter(child=child, parent__live_run=F("parent_run"))
    return links.order_by("parent").values_list("parent", flat=True).first()
