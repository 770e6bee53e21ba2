"""Connectors: the configured, shared connections to outside systems, one provider instance each for a process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from agentstop import conf
from agentstop.exceptions import ConnectorNotConfigured
from agentstop.providers.base import Capability, Provider

_lock = threading.Lock()
_made: dict[tuple[int, str], Provider] = {}


class Unmanaged(Provider):
    """A connector that is only a name: the caller's own code sends, and nothing is claimed about its effects."""


def get(name: str) -> Provider:
    """The provider behind a connector's name; made at its first use in this process."""
    with _lock:
        found = _made.get((os.getpid(), name))
        if found is None:
            found = _made[(os.getpid(), name)] = _make(name)
        return found


def capability(name: str, action: str) -> Capability:
    """What this action can do about its effects; the empty claim where either is not configured (any more)."""
    try:
        return get(name).capability(action)
    except (ConnectorNotConfigured, LookupError):
        return Capability()


def can_submit(name: str) -> bool:
    """Whether the connector's provider sends by itself; otherwise the caller's own code has to."""
    return type(get(name)).submit is not Provider.submit


def takes_webhooks(name: str) -> bool:
    """Whether the connector's provider reads what arrives by itself; ConnectorNotConfigured where there is none."""
    return type(get(name)).webhook is not Provider.webhook


def names() -> list[str]:
    return sorted(conf.CONNECTORS)


def _make(name: str) -> Provider:
    try:
        entry: Mapping[str, Any] = conf.CONNECTORS[name]
    except KeyError:
        known = ", ".join(map(repr, names())) or "none"
        raise ConnectorNotConfigured(
            f"No connector named {name!r} is configured (known: {known}). Add it to AGENTSTOP_CONNECTORS."
        ) from None
    if not entry.get("PROVIDER"):
        return Unmanaged()
    provider = import_string(entry["PROVIDER"])(**entry.get("OPTIONS", {}))
    if not isinstance(provider, Provider):
        raise ConnectorNotConfigured(
            f"Connector {name!r} names {entry['PROVIDER']}, which is no Provider. Make it a subclass of "
            "agentstop.providers.base.Provider."
        )
    return provider


def _settings_changed(*, setting: str, **_: Any) -> None:
    if setting == "AGENTSTOP_CONNECTORS":
        with _lock:
            _made.clear()


setting_changed.connect(_settings_changed, dispatch_uid="agentstop.connectors")
