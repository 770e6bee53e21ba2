"""The people of the demo: two who have tasks of their own, and one who may see and stop everyone's."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Q

from website.demo.system import OPERATOR, ORDINARY

NAMES = (*ORDINARY, OPERATOR)
OPERATES = ("stop_task", "pause_task", "start_run", "compensate_operation", "settle_operation", "freeze_dispatch")

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


class Strangers(Exception):
    """The database has people of these names who are not the demo's."""


def make_people(file: Path) -> None:
    """Everyone, with passwords kept in a file that its owner alone can read. Nothing changes the second time."""
    known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    users = get_user_model().objects
    strangers = sorted(users.filter(username__in=set(NAMES) - set(known)).values_list("username", flat=True))
    if strangers:
        raise Strangers(
            f"The database has users named {', '.join(strangers)} that this demo did not make: use another database."
        )
    passwords = {name: known.get(name) or _password() for name in NAMES}
    _keep(file, json.dumps(passwords, indent=1))
    with transaction.atomic():
        for name, password in passwords.items():
            if not users.filter(username=name).exists():
                users.create_user(name, f"{name}@example.com", password)
        users.filter(username=OPERATOR).update(is_staff=True)
        users.get(username=OPERATOR).groups.add(_operators())


def _operators() -> Group:
    """Sees everything, also in the admin, and has the rights of an operator; the rule for one task is agentstop's."""
    group, _ = Group.objects.get_or_create(name="operators")
    views = Q(content_type__app_label__in=("agentstop", "demo"), codename__startswith="view_")
    group.permissions.set(Permission.objects.filter(views | Q(codename__in=OPERATES)))
    return group


def _password() -> str:
    """Easy to read and to type, and one of 1.6 thousand million."""
    return "".join(secrets.choice(SYLLABLES) for _ in range(5))


def _keep(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as kept:
        kept.write(text)
