"""Whether the websockets of panels are reached through ASGI_APPLICATION, and through what: it is built, not configured.

What is not known is not complained of: a project may put anything of its own around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning
from django.utils.module_loading import import_string

ADDRESS = "ws/agentstop/tasks/1/"
CONSUMER = ("agentstop.consumers", "TaskConsumer")
CURE = (
    'In asgi.py: ProtocolTypeRouter({"http": …, "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter('
    "agentstop.routing.websocket_urlpatterns)))})."
)


@dataclass(frozen=True, slots=True)
class Way:
    """What a websocket of a panel passes on its way: names of classes, from outside in."""

    through: tuple[str, ...]
    found: bool | None  # None: something on the way is not known, and may lead there


def check_sockets(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """The way to the websockets of panels, where the site has named an ASGI application."""
    named = getattr(settings, "ASGI_APPLICATION", None)
    if not named:
        return []
    try:
        application = import_string(named)
    except ImportError:
        return []  # the server says so by itself
    return list(_complaints(str(named), _way(application)))


def _complaints(named: str, way: Way) -> Iterator[CheckMessage]:
    if way.found is False:
        yield Warning(
            f"The websockets of panels are not reached in ASGI_APPLICATION = {named!r}: pages ask every few seconds.",
            hint=f'{CURE} A project without live pages: SILENCED_SYSTEM_CHECKS = ["agentstop.W011"].',
            id="agentstop.W011",
        )
    if not way.found:
        return
    if not any(name.endswith("OriginValidator") for name in way.through):
        yield Warning(
            f"No origin is checked in ASGI_APPLICATION = {named!r}: any page on the web can listen in as its visitor.",
            hint=CURE,
            id="agentstop.W012",
        )
    if "AuthMiddleware" not in way.through:
        yield Warning(
            f"Nothing says who opens a websocket in ASGI_APPLICATION = {named!r}: each is closed at once.",
            hint=CURE,
            id="agentstop.W013",
        )


def _way(application: Any) -> Way:
    through: list[str] = []
    path = ADDRESS
    while True:
        consumer = getattr(application, "consumer_class", None)
        if consumer is not None:
            found = (consumer.__module__, consumer.__qualname__) == CONSUMER
            return Way(tuple(through), found)
        through += [each.__name__ for each in type(application).__mro__[:-1]]
        if "ASGIHandler" in through:
            return Way(tuple(through), False)  # Django's own takes no websockets
        if hasattr(application, "application_mapping"):
            application = application.application_mapping.get("websocket")
        elif hasattr(application, "routes"):
            application, path = _routed(application.routes, path)
        else:
            application = getattr(application, "inner", None) or getattr(application, "application", _UNKNOWN)
        if application is None:
            return Way(tuple(through), False)
        if application is _UNKNOWN:
            return Way(tuple(through), None)


_UNKNOWN = object()


def _routed(routes: Any, path: str) -> tuple[Any, str]:
    for route in routes:
        match = route.pattern.match(path)
        if match:
            return route.callback, match[0]
    return None, path
