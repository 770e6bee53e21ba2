"""Families: the lock that begin, link, spawn and stop take first, so that no child escapes between them."""

from __future__ import annotations

from agentstop import database
from agentstop.models import Family, Task


class _Moved(Exception):
    """The family was merged into another one while its lock was waited for."""


def found() -> Family:
    """A new family for a task that serves nobody yet."""
    return Family.objects.using(database.alias()).create()


def locked_task(task_id: int) -> Task | None:
    """The task, locked after its family; None where there is no such task. Only within a transaction."""
    while True:
        family_id = Task.objects.using(database.alias()).filter(pk=task_id).values_list("family", flat=True).first()
        if family_id is None:
            return None
        try:
            _lock(family_id)
        except _Moved:
            continue
        return database.locked(Task.objects.filter(pk=task_id)).get()


def _lock(family_id: int) -> None:
    family = database.locked(Family.objects.filter(pk=_root(family_id))).get()
    if family.merged_into_id is not None:
        raise _Moved


def _root(family_id: int) -> int:
    """The family that a merged one has become part of."""
    while True:
        into = Family.objects.using(database.alias()).values_list("merged_into", flat=True).get(pk=family_id)
        if into is None:
            return family_id
        family_id = into
