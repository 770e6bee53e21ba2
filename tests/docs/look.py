"""Looks at the first task of the reader's project as `ann` does: at its page, and live by its websocket."""

from __future__ import annotations

import asyncio

from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

TASK = "/agentstop/tasks/1/"
SOCKET = "/ws/agentstop/tasks/1/"
PATIENCE = 30.0  # seconds after which a frame has hung


def main() -> None:
    get_asgi_application()
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import AsyncClient

    from agentstop import sending, wake

    settings.ALLOWED_HOSTS = ["testserver"]
    client = AsyncClient()  # by ASGI: else the page opens no socket
    get = async_to_sync(client.get)
    assert get(TASK).status_code == 302, "a stranger was not sent to the login page"
    client.force_login(get_user_model().objects.get(username="ann"))
    page = get(TASK).content.decode()
    assert "Report on the third quarter" in page, page
    assert SOCKET in page, page
    frame = asyncio.run(first_frame(client.cookies["sessionid"].value))
    assert "agentstop-task-1" in frame, frame
    sending.close()
    wake.close()


async def first_frame(session: str) -> str:
    """The snapshot that the websocket sends when it is opened."""
    headers = [(b"origin", b"http://testserver"), (b"cookie", f"sessionid={session}".encode())]
    socket = WebsocketCommunicator(import_string("mysite.asgi.application"), SOCKET, headers=headers)
    connected, _ = await socket.connect(timeout=PATIENCE)
    assert connected
    frame = await socket.receive_from(timeout=PATIENCE)
    await socket.disconnect(timeout=PATIENCE)
    return str(frame)


if __name__ == "__main__":
    main()
