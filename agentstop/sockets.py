"""What every websocket does first, meanwhile and last: it lets somebody in, counts them, shows life, and ends.

Nothing that comes in is used.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import available_timezones

from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils.translation import check_for_language

from agentstop import sessions
from agentstop.sending import in_domain

NOT_LOGGED_IN = 4401
SESSION_OVER = 4403
MISUSED = 1008
TRY_LATER = 1013

BEAT = 10.0  # seconds between two signs of life, which a page needs: a network that is gone closes nothing
ALIVE = "{}"  # a frame without any news

LARGEST = 1024  # bytes of a frame that comes in
MOST = 20  # frames that come in within a minute
MOST_OPEN = 500  # sockets of one person in one process: their pages share what the others have of it

_opened = Counter[object]()  # sockets by user; touched on the loop's thread alone


class Socket(AsyncWebsocketConsumer):
    """One open websocket of somebody who is known."""

    counted_for: object = None
    protocol: str | None = None  # the subprotocol that is spoken

    async def who(self) -> Any:
        """The user who opens it; None for nobody."""
        user = self.scope.get("user")
        return user if user is not None and user.is_authenticated else None

    async def begin(self, user: object) -> None:
        """Begin what this socket is for; its tasks go into `work`."""
        raise NotImplementedError

    async def leave(self) -> None:
        """It is closed: let go of what `begin` has taken."""

    async def connect(self) -> None:
        self._heard, self.work = deque[float](maxlen=MOST + 1), list[asyncio.Task[None]]()
        user = await self.who()
        await self.accept(self.protocol)  # a code reaches the browser only on an open socket
        if user is None:
            await self.close(NOT_LOGGED_IN)
            return
        if _opened[user.pk] >= MOST_OPEN:
            await self.close(TRY_LATER)
            return
        _opened[user.pk] += 1
        self.counted_for = user.pk
        self.work += [asyncio.create_task(self._mind(user.pk)), asyncio.create_task(self._beat())]
        await self.begin(user.pk)

    async def disconnect(self, code: int) -> None:
        for work in self.work:
            work.cancel()
        await self.leave()
        if self.counted_for is not None:
            _opened[self.counted_for] -= 1
            if not _opened[self.counted_for]:
                del _opened[self.counted_for]
            self.counted_for = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected; much of it, or something large, ends the connection."""
        self._heard.append(time.monotonic())
        flood = len(self._heard) > MOST and self._heard[0] > self._heard[-1] - 60
        if flood or len(text_data or bytes_data or "") > LARGEST:
            await self.over(MISUSED)

    async def over(self, code: int) -> None:
        """End it with this code."""
        await self.close(code)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))

    @property
    def language(self) -> str:
        """As the page named it, where this site knows it."""
        named = self.query.get("language", [""])[0]
        return named if named and check_for_language(named) else ""

    @property
    def zone(self) -> str:
        """As the page named it, where there is such a time zone."""
        named = self.query.get("zone", [""])[0]
        return named if named in available_timezones() else ""

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            await self.send(text_data=ALIVE)

    async def _mind(self, user: object) -> None:
        """End with the session that the socket was opened in."""
        session: Any = self.scope.get("session")
        if session is None or not session.session_key:
            return  # the site knows people by something else
        while (left := await in_domain(sessions.seconds_left, session.session_key, user)) > 0:
            await asyncio.sleep(min(left, sessions.CHECK))
        await self.over(SESSION_OVER)
