"""A look at tasks for those who watch them: read together, drawn once for each kind of reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import AutoField, BigAutoField, Manager
from django.utils import timezone, translation

from agentstop import permissions
from agentstop.accounts import account, selection
from agentstop.accounts.account import Account
from agentstop.composed import Composed
from agentstop.fragments import Picture, draw
from agentstop.reports import report
from agentstop.reports.role import Role

KEYS = (AutoField, BigAutoField)


@dataclass(frozen=True, slots=True)
class Reader:
    """For whom it is drawn: a user, and the language and time zone of their page."""

    user: object  # primary key
    language: str
    zone: str
    whole: bool = True  # the panel; else the row of a list alone


Variant = tuple[str, str, Role, bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """For whom a task is to be drawn, and what was drawn of it before."""

    readers: Collection[Reader]
    drawn: Mapping[Variant, Picture]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look gave: the pictures by variant, whose they are, and in how many seconds time changes something."""

    pictures: Mapping[Variant, Picture]
    variants: Mapping[Reader, Variant]  # without the readers who may not see it
    again_in: float | None
    relatives: frozenset[int] = frozenset()  # tasks that are named in it


def look(wanted: Mapping[int, Wanted]) -> Mapping[int, Look]:
    """Read these tasks in as few queries as one takes, and draw each for its readers, of whom each is checked anew."""
    panels = [pk for pk, each in wanted.items() if any(reader.whole for reader in each.readers)]
    rows = [pk for pk in wanted if pk not in panels]
    found = account.load_whole(panels, selection.PANEL) + account.load_whole(rows, selection.ROW)
    users = _users({reader.user for each in wanted.values() for reader in each.readers})
    seen = {each.task.pk: _look(each, users, wanted[each.task.pk]) for each in found}
    return {pk: seen.get(pk, Look({}, {}, None)) for pk in wanted}


def _users(ids: Collection[Any]) -> Mapping[object, Any]:
    """Read anew at each look: what they may do now decides."""
    model = get_user_model()
    manager = model._default_manager
    # A host's own manager may hide users by who knows what, and its own kind of key be another number in the database.
    plain = type(manager).get_queryset is Manager.get_queryset and type(model._meta.pk) in KEYS
    if plain and all(isinstance(pk, int) for pk in ids):
        return {user.pk: user for user in _PEOPLE.rows(list(ids), manager.db)}
    return manager.in_bulk(ids)


_PEOPLE: Composed[Any] = Composed(lambda ids: get_user_model()._default_manager.filter(pk__in=ids))


def _look(found: Account, users: Mapping[object, Any], wanted: Wanted) -> Look:
    relatives = found.family.relatives
    roles = {
        pk: Role.of(users[pk], found.task, relatives)
        for pk in {reader.user for reader in wanted.readers}
        if pk in users and permissions.sees(users[pk], found.task)
    }
    variants = {
        reader: (reader.language, reader.zone, roles[reader.user], reader.whole)
        for reader in wanted.readers
        if reader.user in roles
    }
    pictures = {variant: _draw(found, variant, wanted.drawn.get(variant)) for variant in set(variants.values())}
    again_in = (found.changes_at - found.now).total_seconds() if found.changes_at is not None else None
    return Look(pictures, variants, again_in, frozenset(relative.pk for relative in relatives))


def _draw(found: Account, variant: Variant, before: Picture | None) -> Picture:
    language, zone, role, whole = variant
    with (
        translation.override(language or settings.LANGUAGE_CODE),
        timezone.override(ZoneInfo(zone) if zone else None),
    ):
        return draw(report.tell(found), role, before, whole=whole)
