"""Who is named on a command line."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

POLICY = "command line"


def named(username: str) -> Any:
    """The user of that name; CommandError where there is none. None where nobody is named."""
    if not username:
        return None
    user = get_user_model()
    found = user._default_manager.filter(**{user.USERNAME_FIELD: username}).first()
    if found is None:
        raise CommandError(f"There is no user {username!r}. --by and --owner take a {user.USERNAME_FIELD}.")
    return found
