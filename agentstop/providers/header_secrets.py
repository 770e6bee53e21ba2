"""What was sent as a login must not be kept: a server may say it again in its answer, as in an error about a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentstop.bodies import MASK, is_secret

ALWAYS = frozenset({"cookie"})  # by its name nobody would know
SHORTEST = 6  # characters of a secret; what is shorter stands in too many words


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The values of headers whose names say that they are secret, and what stands after their scheme; longest first."""
    values = [value for name, value in headers.items() if name.lower() in ALWAYS or is_secret(name)]
    parts = [part for value in values for part in (value, value.partition(" ")[2])]
    return tuple(sorted({part for part in parts if len(part) >= SHORTEST}, key=len, reverse=True))


def without(value: Any, secrets: Iterable[str]) -> Any:
    """The value with these masked in each text of it."""
    if not secrets:
        return value
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        case dict():
            return {without(name, secrets): without(item, secrets) for name, item in value.items()}
        case list():
            return [without(item, secrets) for item in value]
        case _:
            return value
