"""Who works for whom: the tasks that hang on a run which is over, and those that another live run holds.

Within a transaction that holds the family's lock. Everything that hangs on the run is found first, then what a live run
outside holds is left out, with all that it holds in turn; what remains is locked, to be stopped or held.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import models
from django.db.models import F, QuerySet
from django.db.models.expressions import RawSQL

from agentstop import database
from agentstop.models import Decision, ServingLink, Task
from agentstop.states import TaskState

ALIVE = (TaskState.ACTIVE, TaskState.PAUSED)
TASK, LINK = Task._meta.db_table, ServingLink._meta.db_table
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
    return Task.objects.using(database.alias()).filter(pk__in=RawSQL(*_named(tasks)))  # noqa: S611  our own names


def of_those(model: type[models.Model], condition: str, tasks: Sequence[int]) -> RawSQL:
    """The ids of those rows (`own`) of these tasks for which the condition holds."""
    named, values = _named(tasks)
    rows = database.each(model._meta.db_table, "own", f"own.task_id = task.id AND {condition}")
    return RawSQL(f"SELECT own.id FROM ({named}) AS task {rows}", values)  # noqa: S608, S611  the same


# Each statement is in an order of its own, from the tasks that are named to their links: the planner does not know how
# a family has grown since it last looked, and would read all links again for each task.


def _hanging(task_id: int, run: int) -> Iterator[int]:
    sql = f"""
WITH RECURSIVE hanging(id, run) AS (
  SELECT child.id, child.last_run
  FROM {LINK} AS link JOIN {TASK} AS child ON child.id = link.child_id
  WHERE link.parent_id = %(task)s AND link.parent_run <= %(run)s AND {REACHED}
  UNION
  SELECT child.id, child.last_run FROM hanging
    {database.each(LINK, "link", "link.parent_id = hanging.id AND link.parent_run = hanging.run")}
    {database.each(TASK, "child", f"child.id = link.child_id AND {REACHED}")})
SELECT id FROM hanging
"""  # noqa: S608  our own names, values apart
    with database.connection().cursor() as cursor:
        cursor.execute(sql, {"task": task_id, "run": run})
        yield from (pk for (pk,) in cursor.fetchall())


def _held(task_id: int, run: int, hanging: Collection[int]) -> set[int]:
    """Those of the tasks that hang on the run which a live run outside needs, and what these need in turn."""
    found, needed = set[int](), defaultdict[int, list[int]](list)
    for child, parent, live in _needed(task_id, run, sorted(hanging)):
        if not live:  # finished: nobody needs anything for it
            continue
        if parent in hanging:
            needed[parent].append(child)
        else:
            found.add(child)
    wave = list(found)
    while wave:
        new = {child for parent in wave for child in needed[parent]} - found
        found |= new
        wave = list(new)
    return found


def _needed(task_id: int, run: int, children: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """For each link of these tasks to a last run of another task: child, parent, and whether that run is live."""
    named, values = _named(children)
    sql = f"""
SELECT link.child_id, link.parent_id, parent.live_run IS NOT NULL FROM ({named}) AS task
  {database.each(LINK, "link", "link.child_id = task.id")}
  {database.each(TASK, "parent", "parent.id = link.parent_id AND parent.last_run = link.parent_run")}
WHERE link.parent_id <> %s OR link.parent_run > %s
"""  # noqa: S608  the same
    with database.connection().cursor() as cursor:
        cursor.execute(sql, [*values, task_id, run])
        yield from cursor.fetchall()


def _named(tasks: Sequence[int]) -> tuple[str, list[str | list[int]]]:
    """A statement that gives these ids as its rows: one value, since a database bounds how many there may be."""
    if database.is_postgresql():
        return "SELECT id FROM unnest(%s::bigint[]) AS named(id)", [list(tasks)]
    return "SELECT value AS id FROM json_each(%s)", [json.dumps(list(tasks))]


@dataclass(frozen=True, slots=True)
class GoesOn:
    """A task near the stopped ones that was not stopped, and why.

    `why`: "detached"; "on_its_own", begun by a person while no run that it serves was live; "held" by a live run of
    `by`.
    """

    task: int
    why: str
    by: int | None = None


GOING_ON = """
SELECT DISTINCT child.id, child.detached, child.on_its_own FROM {task} AS parent {links} {live_children}
WHERE parent.id = %(task)s OR parent.stop_decision_id = %(decision)s ORDER BY child.id LIMIT %(limit)s
"""


def going_on(task: Task, decision: Decision, limit: int) -> tuple[GoesOn, ...]:
    """The first live children of the task and of what was stopped with it, each with the reason why it goes on."""
    live = "child.id = link.child_id AND child.state IN ('active', 'paused')"
    joins = {
        "links": database.each(LINK, "link", "link.parent_id = parent.id"),
        "live_children": database.each(TASK, "child", live),
    }
    with database.connection().cursor() as cursor:
        values = {"task": task.pk, "decision": decision.pk, "limit": limit}
        cursor.execute(GOING_ON.format(task=TASK, **joins), values)
        found = cursor.fetchall()
    holders = _holders([child for child, detached, on_its_own in found if not (detached or on_its_own)])
    return tuple(
        GoesOn(child, "detached" if detached else "on_its_own" if on_its_own else "held", holders.get(child))
        for child, detached, on_its_own in found
    )


def _holders(children: Sequence[int]) -> dict[int, int]:
    links = ServingLink.objects.using(database.alias()).filter(child__in=children, parent__live_run=F("parent_run"))
    return dict(links.order_by("-parent").values_list("child", "parent"))  # the last one given stays: the first task
