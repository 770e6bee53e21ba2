"""The ASGI application: pages and static files over HTTP, live pushes over websockets of this site's own pages."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "website.settings")
django_application = get_asgi_application()  # first: it loads the apps that the imports below need

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402

from agentstop.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        # Serves static files whatever DEBUG says, so that one process is enough; a proxy may serve them instead.
        "http": ASGIStaticFilesHandler(django_application),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
