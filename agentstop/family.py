"""Families: the lock that begin, link, spawn and stop take first, so that no child escapes between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentstop import database
from agentstop.database import StartOver
from agentstop.models import Family, ServingLink, Task


def found() -> Family:
    """A new family for a task that serves nobody yet."""
    return Family.objects.using(database.alias()).create()


def locked_task(task_id: int) -> Task | None:
    """The task, locked after its family; None where there is no such task. Only within a retried transaction."""
    return locked_tasks([task_id]).get(task_id)


def locked_tasks(task_ids: Iterable[int]) -> dict[int, Task]:
    """The tasks by id, locked in the order of their ids, after their families in the order of theirs."""
    wanted = set(task_ids)
    families = set(database.by_id(Task, wanted).values_list("family", flat=True))
    held = list(database.locked(database.by_id(Family, {_root(family) for family in families})))
    if any(one.merged_into_id is not None for one in held):
        raise StartOver("A family was merged while its lock was waited for.")  # a lock out of order would deadlock
    return {task.pk: task for task in database.locked(database.by_id(Task, wanted))}


def merged(tasks: Sequence[Task]) -> int:
    """The one family of these locked tasks from now on: the others point to it, whoever belongs to them."""
    first, *others = sorted({_root(task.family_id) for task in tasks})
    Family.objects.using(database.alias()).filter(pk__in=others).update(merged_into=first)
    return first


def would_close_a_ring(child: int, parent: int) -> bool:
    """Whether the child is the parent, or one that the parent works for: serving it would make it its own cause."""
    sql = f"""
WITH RECURSIVE above(id) AS (
  SELECT CAST(%(parent)s AS bigint)
  UNION
  SELECT link.parent_id FROM above {database.each(ServingLink._meta.db_table, "link", "link.child_id = above.id")})
SELECT 1 FROM above WHERE id = %(child)s LIMIT 1
"""  # noqa: S608  our own names, values apart
    with database.connection().cursor() as cursor:
        cursor.execute(sql, {"parent": parent, "child": child})
        return cursor.fetchone() is not None


def _root(family_id: int) -> int:
    """The family that a merged one has become part of."""
    while True:
        into = Family.objects.using(database.alias()).values_list("merged_into", flat=True).get(pk=family_id)
        if into is None:
            return family_id
        family_id = into
