"""The measured site: agentstop's websockets for one user, and two bare ones beside them, which echo what was told.

Both bare ones hear of the same commits by a LISTEN of their own. One sends what it hears, and the other one reads and
draws the task first: the least that anything can cost which shows it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.live.settings")
django.setup()

import psycopg  # noqa: E402
from channels.db import database_sync_to_async  # noqa: E402
from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.contrib.auth import get_user_model  # noqa: E402
from django.urls import path  # noqa: E402

from agentstop.looks import Reader, Wanted, look  # noqa: E402
from agentstop.routing import websocket_urlpatterns  # noqa: E402
from agentstop.sending import in_domain  # noqa: E402

BARE = "bench"  # the channel of the echoes

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[Any]]


class Echo(AsyncWebsocketConsumer):
    """Sends what it hears about its task."""

    async def connect(self) -> None:
        await self.accept()
        self.task = int(self.scope["url_route"]["kwargs"]["task"])
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        ready = asyncio.Event()
        told = asyncio.get_running_loop().call_soon_threadsafe
        threading.Thread(target=listen, args=(told, ready.set, self.heard.put_nowait), daemon=True).start()
        await ready.wait()
        await self.send(text_data="ready")
        self.work = asyncio.create_task(self._work())

    async def disconnect(self, code: int) -> None:
        self.work.cancel()

    async def _work(self) -> None:
        while True:
            word = await self.heard.get()
            if word == str(self.task):
                await self.show(word)

    async def show(self, word: str) -> None:
        await self.send(text_data=word)


class Drawn(Echo):
    """Reads and draws the task, and sends the pieces that tell its state."""

    async def show(self, word: str) -> None:
        reader = Reader(self.scope["user"].pk, "en", "UTC")  # type: ignore[union-attr]
        seen = await in_domain(look, {self.task: Wanted([reader], {})})
        [picture] = seen[self.task].pictures.values()
        await self.send(text_data=picture.parts["state"] + picture.parts["line"])


def listen(told: Callable[..., Any], ready: Callable[[], None], put: Callable[[str], None]) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"LISTEN {BARE}")
        told(ready)
        for notice in connection.notifies():
            told(put, notice.payload)


def known(app: App) -> App:
    """Everybody is the one user of this site."""

    async def with_user(scope: MutableMapping[str, Any], receive: Any, send: Any) -> Any:
        user = await database_sync_to_async(get_user_model().objects.get)()
        return await app({**scope, "user": user}, receive, send)

    return with_user


bare: list[Any] = [path("bare/<int:task>/", Echo.as_asgi()), path("drawn/<int:task>/", Drawn.as_asgi())]  # type: ignore[arg-type]
routed: Any = URLRouter([*websocket_urlpatterns, *bare])
application = ProtocolTypeRouter({"websocket": known(routed)})
