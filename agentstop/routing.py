"""Websocket addresses of the package, for the site's `asgi.py`:

    from agentstop.routing import websocket_urlpatterns
    application = ProtocolTypeRouter({
        "http": get_asgi_application(),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    })

The site puts both around it: the origin check, without which any page on the web could listen in, and the session.
Needs `channels`, with it in INSTALLED_APPS or not. Behind daphne give `--ping-interval 10 --ping-timeout 15`: a socket
that has gone silent is cut then, and nothing piles up for it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.urls import URLPattern, path

from agentstop.consumers import ButtonConsumer, ListConsumer, TaskConsumer
from agentstop.panel import SOCKETS

# ASGI applications, which Channels routes by Django's paths.
_task: Any = TaskConsumer.as_asgi()
_button: Any = ButtonConsumer.as_asgi()
_list: Any = ListConsumer.as_asgi()


def _events() -> list[URLPattern]:
    """The same changes as JSON, where the HTTP API is installed (`agentstop[api]`)."""
    if find_spec("ninja") is None:
        return []
    from agentstop.api.sockets import EventsConsumer

    events: Any = EventsConsumer.as_asgi()
    return [path(f"{SOCKETS}tasks/<int:task>/events/", events)]


websocket_urlpatterns = [
    path(f"{SOCKETS}tasks/<int:task>/", _task),
    path(f"{SOCKETS}tasks/<int:task>/button/", _button),
    path(f"{SOCKETS}tasks/", _list),
    *_events(),
]
