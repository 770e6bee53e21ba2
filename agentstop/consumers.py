"""The websocket of one task's panel: pieces of HTML go out, and nothing that comes in is used."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import available_timezones

from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils.translation import check_for_language

from agentstop import sessions
from agentstop.fragments import Picture, carried, difference
from agentstop.live import GAP, Reader, Viewer, registry
from agentstop.sending import in_domain

NOT_LOGGED_IN = 4401
SESSION_OVER = 4403
MISUSED = 1008

LARGEST = 1024  # bytes of a frame that comes in
MOST = 20  # frames that come in within a minute


class TaskConsumer(AsyncWebsocketConsumer):
    """Shows one task to one reader, from a snapshot on; closed for good when they may not see it any more."""

    viewer: Viewer | None = None

    async def connect(self) -> None:
        await self.accept()  # a code reaches the browser only on an open socket
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(NOT_LOGGED_IN)
            return
        self._heard: list[float] = []
        self.task_id = int(self.scope["url_route"]["kwargs"]["task"])
        self.viewer = Viewer(_reader(user.pk, self.scope.get("query_string", b"")))
        self._work = [asyncio.create_task(self._write(self.viewer)), asyncio.create_task(self._mind(self.viewer))]
        await registry().join(self.task_id, self.viewer)

    async def disconnect(self, code: int) -> None:
        if self.viewer is not None:
            for task in self._work:
                task.cancel()
            await registry().leave(self.task_id, self.viewer)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected; much of it, or something large, ends the connection."""
        if self.viewer is None:
            return
        now = time.monotonic()
        self._heard = [at for at in self._heard if at > now - 60] + [now]
        if len(text_data or bytes_data or "") > LARGEST or len(self._heard) > MOST:
            self.viewer.end(MISUSED)

    async def _write(self, viewer: Viewer) -> None:
        """The one writer of this socket."""
        shown: Picture | None = None
        while True:
            await viewer.changed.wait()
            viewer.changed.clear()
            if viewer.over is not None:
                await self.close(viewer.over)
                return
            if viewer.picture is not None:
                pieces, shown = difference(shown, viewer.picture), viewer.picture
                if pieces:
                    await self.send(text_data="".join(map(carried, pieces)))
                    await asyncio.sleep(GAP)

    async def _mind(self, viewer: Viewer) -> None:
        """End with the session that the socket was opened in."""
        session: Any = self.scope.get("session")
        if session is None or not session.session_key:
            return  # the site knows people by something else
        while True:
            left = await in_domain(sessions.seconds_left, session.session_key, viewer.reader.user)
            if left <= 0:
                viewer.end(SESSION_OVER)
                return
            await asyncio.sleep(min(left, sessions.CHECK))


def _reader(user: object, query: bytes) -> Reader:
    """Language and zone as the page named them, where this site knows them."""
    asked = parse_qs(query.decode("ascii", "replace"))
    language, zone = asked.get("language", [""])[0], asked.get("zone", [""])[0]
    return Reader(
        user,
        language if language and check_for_language(language) else "",
        zone if zone in available_timezones() else "",
    )
