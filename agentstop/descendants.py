"""Who works for whom: the tasks that hang on a run which is over, and those that another live run holds.

Within a transaction that holds the family's lock. First everything that hangs on the run is marked, then what a live
run outside holds is given back, with all that it holds in turn; what is left marked is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import models
from django.db.models import F, QuerySet
from django.db.models.expressions import RawSQL

from agentstop import database
from agentstop.models import Decision, ServingLink, Task
from agentstop.states import TaskState

ALIVE = (TaskState.ACTIVE, TaskState.PAUSED)
TASK, LINK = Task._meta.db_table, ServingLink._meta.db_table
REACHED = "child.state IN ('active', 'paused', 'finished') AND NOT child.detached"


def mark(task: Task, run: int, decision: Decision) -> None:
    """Mark with this decision every task that works for the run alone, directly or through others."""
    if not ServingLink.objects.using(database.alias()).filter(parent=task, parent_run__lte=run).exists():
        return
    values = {"task": task.pk, "run": run, "decision": decision.pk}
    database.go_by_index()
    with database.connection().cursor() as cursor:
        cursor.execute(_mark_all_that_hangs(), values)
        cursor.execute(_give_back_what_is_held(), values)


# Each statement is in an order of its own, from the tasks that are marked to their links: the planner takes a decision
# that has just marked thousands for one that has marked none, and would read all of them again for each.


def _mark_all_that_hangs() -> str:
    return f"""
WITH RECURSIVE hanging(id, run, alive) AS (
  SELECT child.id, child.last_run, child.state <> 'finished'
  FROM {LINK} AS link JOIN {TASK} AS child ON child.id = link.child_id
  WHERE link.parent_id = %(task)s AND link.parent_run <= %(run)s AND {REACHED}
  UNION
  SELECT child.id, child.last_run, child.state <> 'finished' FROM hanging
    {database.each(LINK, "link", "link.parent_id = hanging.id AND link.parent_run = hanging.run")}
    {database.each(TASK, "child", f"child.id = link.child_id AND {REACHED}")})
UPDATE {TASK} SET stop_decision_id = %(decision)s WHERE id IN (SELECT id FROM hanging WHERE alive)
"""  # noqa: S608  our own names, values apart


def _give_back_what_is_held() -> str:
    outside = "parent.stop_decision_id IS NULL OR parent.stop_decision_id <> %(decision)s"
    holds = f"parent.id = link.parent_id AND parent.live_run = link.parent_run AND ({outside})"
    is_marked = "child.id = link.child_id AND coalesce(child.stop_decision_id, 0) = %(decision)s"
    return f"""
WITH RECURSIVE held(id, run) AS (
  SELECT marked.id, marked.last_run FROM {TASK} AS marked
    {database.each(LINK, "link", "link.child_id = marked.id")}
    {database.each(TASK, "parent", holds)}
  WHERE marked.stop_decision_id = %(decision)s AND marked.state IN ('active', 'paused')
  UNION
  SELECT child.id, child.last_run FROM held
    {database.each(LINK, "link", "link.parent_id = held.id AND link.parent_run = held.run")}
    {database.each(TASK, "child", is_marked)})
UPDATE {TASK} SET stop_decision_id = NULL WHERE id IN (SELECT id FROM held)
"""  # noqa: S608  the same


def marked(decision: Decision) -> QuerySet[Task]:
    """The tasks that this decision marks and that are still to be stopped."""
    return Task.objects.using(database.alias()).filter(stop_decision=decision, state__in=ALIVE)


def of_marked(model: type[models.Model], condition: str, decision: Decision) -> RawSQL:
    """The ids of those rows (`own`) of the marked tasks for which the condition holds."""
    rows = database.each(model._meta.db_table, "own", f"own.task_id = marked.id AND {condition}")
    sql = f"SELECT own.id FROM {TASK} AS marked {rows} WHERE marked.stop_decision_id = %s"  # noqa: S608  the same
    return RawSQL(sql, [decision.pk])  # noqa: S611  the same


def unmark(decision: Decision) -> None:
    """Take the marks away again, where the tasks are not to be stopped."""
    marked(decision).update(stop_decision=None)


@dataclass(frozen=True, slots=True)
class GoesOn:
    """A task near the stopped ones that was not stopped, and why: `detached`, or `held` by a live run of `by`."""

    task: int
    why: str
    by: int | None = None


GOING_ON = """
SELECT DISTINCT child.id, child.detached FROM {task} AS parent {links} {live_children}
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
    holders = _holders([child for child, detached in found if not detached])
    return tuple(
        GoesOn(child, "detached") if detached else GoesOn(child, "held", holders.get(child))
        for child, detached in found
    )


def _holders(children: Sequence[int]) -> dict[int, int]:
    links = ServingLink.objects.using(database.alias()).filter(child__in=children, parent__live_run=F("parent_run"))
    return dict(links.order_by("-parent").values_list("child", "parent"))  # the last one given stays: the first task
