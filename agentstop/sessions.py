"""How long a browser's session lasts, asked of the store itself: a socket outlives the request that opened it."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.utils import timezone

CHECK = 60.0  # seconds after which a session is looked at again: people log out, and passwords change


def seconds_left(key: str, user: object) -> float:
    """How long this session is that user's, as far as is known now; 0 where it is not (any more)."""
    store: Any = import_module(settings.SESSION_ENGINE).SessionStore(key)
    found = get_user(cast(HttpRequest, SimpleNamespace(session=store)))
    if not found.is_authenticated or found.pk != user:
        return 0.0
    return max(0.0, _until_end(store, key))


def _until_end(store: Any, key: str) -> float:
    model = getattr(store, "model", None)  # the stores that keep sessions in the database know their end
    row = model.objects.filter(pk=key).first() if model is not None else None
    return (row.expire_date - timezone.now()).total_seconds() if row is not None else CHECK
