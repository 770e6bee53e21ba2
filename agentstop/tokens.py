"""Service tokens: made for one application, shown once, checked at each request, revoked by a person."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Q

from agentstop import bodies, connectors, database
from agentstop.exceptions import Denied
from agentstop.models import ServiceToken

logger = logging.getLogger(__name__)

BEGINNING = "agentstop"
ANY = "*"
USED = timedelta(minutes=1)  # between two notes that a token was used


class Scope(StrEnum):
    """What an application may do with its token, as far as its user may."""

    READ = "read"  # see tasks, operations and questions
    CREATE = "create"  # create tasks
    CONTROL = "control"  # stop, pause, resume, look up, type for the agent
    FREEZE = "freeze"  # hold dispatch for everybody, and lift what holds it
    RUN = "run"  # be the agent: begin runs, pass the gate, hand in receipts, ask people


def make(
    application: str,
    user: Any,
    scopes: Sequence[str],
    *,
    by: Any,
    connectors: Sequence[str] = (),
    until: datetime | None = None,
) -> tuple[ServiceToken, str]:
    """The row and the token itself, which is not stored: whoever loses it makes another.

    `connectors`: whose operations its runs may send, by name; `*` is any. Denied unless `by` may make tokens, and
    makes it for themselves or is a superuser: a token lends the rights of its user.
    """
    if not may_make(by, user):
        raise Denied(f"You may not make a token that acts as {user}. Make it for yourself, or ask a superuser.")
    name, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    token = f"{BEGINNING}_{name}_{secret}"
    row = ServiceToken.objects.using(database.alias()).create(
        application=bodies.one_line(application, "application", 100),
        user=user,
        scopes=_scopes(scopes),
        connectors=_known(connectors),
        name=name,
        fingerprint=_fingerprint(token),
        made_by=by,
        made_at=database.now(),
        until=until,
    )
    logger.info("service token %s was made", name, extra={"action": "token_made", "token": row.pk})
    return row, token


def may_make(by: Any, user: Any) -> bool:
    """Whether this person may make tokens that act as that user."""
    allowed = by.is_active and by.has_perm("agentstop.add_servicetoken")
    return bool(allowed and (by.is_superuser or by.pk == user.pk))


def revoke(token: ServiceToken, *, by: Any) -> bool:
    """From now on it lets nobody in; False where it was revoked before. Denied without the permission."""
    if not by.has_perm("agentstop.revoke_servicetoken"):
        raise Denied(f"You may not revoke {token}. Ask somebody who may.")
    rows = ServiceToken.objects.using(database.alias()).filter(pk=token.pk, revoked_at__isnull=True)
    revoked = rows.update(revoked_at=database.now(), revoked_by=by)
    logger.info("service token %s was revoked", token.name, extra={"action": "token_revoked", "token": token.pk})
    return bool(revoked)


def find(token: str) -> ServiceToken | None:
    """The row of a token that lets its application in now; None for any other text."""
    beginning, _, rest = token.partition("_")
    name, _, secret = rest.partition("_")
    if beginning != BEGINNING or not (name.isascii() and name.isalnum() and secret.isascii()):
        return None
    now = database.now()
    rows = ServiceToken.objects.using(database.alias()).select_related("user")
    valid = rows.filter(Q(until__isnull=True) | Q(until__gt=now), revoked_at__isnull=True)
    found = valid.filter(name=name).first()
    if found is None or not found.user.is_active or not hmac.compare_digest(found.fingerprint, _fingerprint(token)):
        return None
    if found.used_at is None or found.used_at < now - USED:
        rows.filter(pk=found.pk).update(used_at=now)
    return found


def may_send(token: ServiceToken, connector: str) -> bool:
    """Whether its runs may send operations of this connector."""
    return ANY in token.connectors or connector in token.connectors


def _scopes(scopes: Sequence[str]) -> list[str]:
    unknown = sorted(set(scopes) - set(Scope))
    if unknown or not scopes:
        raise ValueError(f"scopes must be some of {', '.join(Scope)}, not {', '.join(unknown) or 'none'}.")
    return [scope.value for scope in Scope if scope in scopes]


def _known(names: Sequence[str]) -> list[str]:
    unknown = sorted(set(names) - {ANY, *connectors.names()})
    if unknown:
        known = ", ".join(connectors.names()) or "none"
        raise ValueError(f"No connector is named {', '.join(unknown)} (known: {known}; * is any).")
    return sorted(set(names))


def _fingerprint(token: str) -> str:
    """Fast on purpose: there is nothing to guess in 256 random bits, and each request is checked."""
    return hashlib.sha256(token.encode()).hexdigest()
