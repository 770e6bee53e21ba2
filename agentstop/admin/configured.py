"""The configured connectors, each with what its actions can and cannot do about their effects, in sentences (R18)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext

from agentstop import conf, connectors
from agentstop.providers.base import Capability, Provider
from agentstop.words import capability_words
from agentstop.words.capability_words import Described, describe

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a connector."""

    name: str
    told: tuple[Described, ...]


@dataclass(frozen=True, slots=True)
class Connector:
    """One entry of the settings; `problem` is told in place of actions where it cannot be used."""

    name: str
    provider: str
    actions: tuple[Action, ...] = ()
    problem: str = ""


def configured() -> list[Connector]:
    """Every connector, by its name. Nothing is sent, and no option is shown: they hold secrets."""
    return [_connector(name) for name in connectors.names()]


def _connector(name: str) -> Connector:
    provider = str(conf.CONNECTORS[name].get("PROVIDER") or "")
    try:
        return Connector(name, provider, tuple(_actions(connectors.get(name))))
    except Exception as error:
        # Its text may quote an option, so the page tells only its kind; the log is for those who may read secrets.
        logger.warning("connector %s cannot be used", name, exc_info=True, extra={"action": "connector_unusable"})
        return Connector(name, provider, problem=type(error).__name__)


def _actions(provider: Provider) -> Iterator[Action]:
    known = provider.known_actions()
    for name in known:
        yield Action(name, describe(provider.capability(name)))
    others = _others(provider)
    if others is not None:
        title = capability_words.EVERY_OTHER_ACTION if known else capability_words.EVERY_ACTION
        yield Action(gettext(title), describe(others))


def _others(provider: Provider) -> Capability | None:
    """What is claimed of an action that it does not name; None where it takes none."""
    try:
        return provider.capability("")
    except LookupError:
        return None
