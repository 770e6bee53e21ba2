"""Who works for whom: the tasks that hang on a run which is over, and those that another live run holds.

Within a transaction that holds the family's lock. Everything that hangs on the run is found first, then what a live run
outside holds is left out, with all that it holds in turn; what remains is locked, to be stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import models
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from agentstop import database
from agentstop.models import Run, ServingLink, Task
from agentstop.states import TaskState

ALIVE = (TaskState.ACTIVE, TaskState.PAUSED)
TASK, LINK, RUN = Task._meta.db_table, ServingLink._meta.db_table, Run._meta.db_table
REACHED = "child.state IN ('active', 'paused', 'finished') AND NOT (child.detached OR child.on_its_own)"


@dataclass(frozen=True, slots=True)
class Below:
    """The tasks that work for a run alone, directly or through others, each locked, by id in order.

    `finished`: those that have, and on which no stop has come since.
    """

    alive: Sequence[int] = ()
    finished: Sequence[int] = ()


def locked_below(task: Task, run: int) -> Below:
    """What works for the run alone."""
    if not ServingLink.objects.using(database.alias()).filter(parent=task, parent_run__lte=run).exists():
        return Below()
    database.go_by_index()
    hanging = set(_hanging(task.pk, run))
    below = sorted(hanging - _held(task.pk, run, hanging))
    rows = those(below).filter(late_stop__isnull=True).order_by("pk").select_for_update(no_key=True)
    found = list(rows.values_list("pk", "state")) if below else []
    return Below(
        [pk for pk, state in found if state != TaskState.FINISHED],
        [pk for pk, state in found if state == TaskState.FINISHED],
    )


def those(tasks: Sequence[int]) -> QuerySet[Task]:
    """The tasks with these ids, however many."""
    return Task.objects.using(database.alias()).filter(pk__in=named(tasks))


def named(ids: Sequence[int]) -> RawSQL:
    """These ids as a subquery of one value."""
    return RawSQL(*database.named(ids))  # noqa: S611  our own names


def of_those(model: type[models.Model], condition: str, tasks: Sequence[int]) -> RawSQL:
    """The ids of those rows (`own`) of these tasks for which the condition holds."""
    ids, values = database.named(tasks)
    rows = database.each(model._meta.db_table, "own", f"own.task_id = task.id AND {condition}")
    return RawSQL(f"SELECT own.id FROM ({ids}) AS task {rows}", values)  # noqa: S608, S611  the same


# Each statement is in an order of its own, from the tasks that are named to their links: the planner does not know how
# a family has grown since it last looked, and would read all links again for each task.


# A run that has ended by itself has left its children at work: what they work for is whatever the task works for, or
# its next run, where it has one.
ENDED = (
    "EXISTS (SELECT 1 FROM {run} AS run WHERE run.task_id = {task} AND run.number = link.parent_run "
    "AND run.state IN ('finished', 'failed'))"
)
HOW = f"""
CASE WHEN parent.live_run = link.parent_run THEN 'live'
     WHEN parent.live_run IS NULL AND (parent.detached OR parent.on_its_own) THEN NULL
     WHEN NOT {ENDED.format(run=RUN, task="parent.id")} THEN NULL
     WHEN parent.live_run IS NULL THEN 'above' ELSE 'live' END
"""


def alive_below(tasks: Iterable[int]) -> list[int]:
    """Those that are not over of these tasks and of all that have ever served them, directly or through others."""
    database.go_by_index()
    ids, values = database.named(sorted(set(tasks)))
    alive = database.each(TASK, "task", "task.id = below.id AND task.state IN ('active', 'paused')")
    sql = f"""
WITH RECURSIVE below(id) AS (
  SELECT id FROM ({ids}) AS task
  UNION
  SELECT link.child_id FROM below {database.each(LINK, "link", "link.parent_id = below.id")})
SELECT task.id FROM below {alive} ORDER BY task.id
"""  # noqa: S608  our own names, values apart
    with database.connection().cursor() as cursor:
        cursor.execute(sql, values)
        return [pk for (pk,) in cursor.fetchall()]


def served(tasks: Iterable[int], apart: tuple[int, int] = (0, 0)) -> Iterator[tuple[int, int, bool]]:
    """What these tasks work for: child, parent, and whether it is a live run of the parent.

    Where it is not, the parent's run has ended by itself, and what that task works for is given too. `apart`: a task
    and a run number; its runs so far do not count.
    """
    ids, values = database.named(sorted(set(tasks)))
    outside = "NOT (link.parent_id = %s AND link.parent_run <= %s)"
    parent = database.each(TASK, "parent", "parent.id = link.parent_id")
    sql = f"""
WITH RECURSIVE served(child, parent, how) AS (
  SELECT link.child_id, link.parent_id, {HOW} FROM ({ids}) AS task
    {database.each(LINK, "link", f"link.child_id = task.id AND {outside}")} {parent}
  UNION
  SELECT link.child_id, link.parent_id, {HOW} FROM served
    {database.each(LINK, "link", f"served.how = 'above' AND link.child_id = served.parent AND {outside}")} {parent})
SELECT child, parent, how = 'live' FROM served WHERE how IS NOT NULL
"""  # noqa: S608  the same
    with database.connection().cursor() as cursor:
        cursor.execute(sql, [*values, *apart, *apart])
        yield from ((child, parent, bool(live)) for child, parent, live in cursor.fetchall())


def _hanging(task_id: int, run: int) -> Iterator[int]:
    reached = f"link.parent_run = hanging.run OR {ENDED.format(run=RUN, task='hanging.id')}"
    sql = f"""
WITH RECURSIVE hanging(id, run) AS (
  SELECT child.id, child.last_run
  FROM {LINK} AS link JOIN {TASK} AS child ON child.id = link.child_id
  WHERE link.parent_id = %(task)s AND link.parent_run <= %(run)s AND {REACHED}
  UNION
  SELECT child.id, child.last_run FROM hanging
    {database.each(LINK, "link", f"link.parent_id = hanging.id AND ({reached})")}
    {database.each(TASK, "child", f"child.id = link.child_id AND {REACHED}")})
SELECT id FROM hanging
"""  # noqa: S608  the same
    with database.connection().cursor() as cursor:
        cursor.execute(sql, {"task": task_id, "run": run})
        yield from (pk for (pk,) in cursor.fetchall())


def _held(task_id: int, run: int, hanging: Collection[int]) -> set[int]:
    """Those of the tasks that hang on the run which a live run outside needs, and what these need in turn."""
    found, needed = set[int](), defaultdict[int, list[int]](list)
    for child, parent, live in served(hanging, apart=(task_id, run)):
        if live and parent not in hanging:
            found.add(child)
        else:
            needed[parent].append(child)
    wave = list(found)
    while wave:
        new = {child for parent in wave for child in needed[parent]} - found
        found |= new
        wave = list(new)
    return found


@dataclass(frozen=True, slots=True)
class GoesOn:
    """A task below the stopped ones that was not stopped, and why.

    `why`: "detached"; "on_its_own", begun by a person while no run that it serves was live; "held" by a live run of
    `by`, which is not stopped; "left": every run that it worked for is over, and had ended by itself.
    """

    task: int
    why: str
    by: int | None = None


def going_on(tasks: Sequence[int]) -> tuple[GoesOn, ...]:
    """These live tasks, each with the reason why it goes on; `by` is the first of those that need it."""
    rows = those(tasks).order_by("pk").values_list("pk", "detached", "on_its_own")
    holders = _holders(tasks)
    return tuple(_reason(pk, detached, on_its_own, holders.get(pk)) for pk, detached, on_its_own in rows)


def _reason(task: int, detached: bool, on_its_own: bool, holder: int | None) -> GoesOn:
    if detached or on_its_own:
        return GoesOn(task, "detached" if detached else "on_its_own")
    return GoesOn(task, "left") if holder is None else GoesOn(task, "held", holder)


def _holders(tasks: Sequence[int]) -> dict[int, int]:
    """For each of the tasks the first whose live run it works for, directly or through what has ended by itself."""
    needs = defaultdict[int, list[tuple[int, bool]]](list)
    for child, parent, live in served(tasks):
        needs[child].append((parent, live))

    found = {task: _first_above(task, needs) for task in tasks}
    return {task: holder for task, holder in found.items() if holder is not None}


def _first_above(task: int, needs: Mapping[int, Sequence[tuple[int, bool]]]) -> int | None:
    """Each that has ended is looked at once: there may be thousands one above the other, and many ways to one."""
    found, seen, left = list[int](), {task}, [task]
    while left:
        for parent, live in needs.get(left.pop(), ()):
            if live:
                found.append(parent)
            elif parent not in seen:
                seen.add(parent)
                left.append(parent)
    return min(found, default=None)
