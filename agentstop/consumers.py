"""The websockets of panels and lists: pieces of HTML go out, and nothing that comes in is used."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import available_timezones

from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils.translation import check_for_language

from agentstop import listing, sessions, unseen
from agentstop.fragments import Picture, Piece, carried, difference
from agentstop.live import GAP, Reader, Viewer, registry
from agentstop.sending import in_domain

NOT_LOGGED_IN = 4401
SESSION_OVER = 4403
MISUSED = 1008
TRY_LATER = 1013

BEAT = 10.0  # seconds between two signs of life, which a page needs: a network that is gone closes nothing
ALIVE = "{}"  # a frame that puts nothing into the page

LOOK = 5.0  # seconds between two notes that somebody is looking
AFTERWARDS = 60.0  # seconds for which they are taken after an awaited outcome was shown

LARGEST = 1024  # bytes of a frame that comes in
MOST = 20  # frames that come in within a minute
MOST_OPEN = 500  # sockets of one person in one process: their pages share what the others have of it


_opened = Counter[object]()  # sockets by user; touched on the loop's thread alone


class _Consumer(AsyncWebsocketConsumer):
    """Shows tasks to one reader, from a snapshot on; closed for good when they may not see one of them any more."""

    whole: bool  # shows panels, not rows alone
    counted_for: object = None

    def tasks(self) -> Iterable[int]:
        """Which tasks the address names."""
        raise NotImplementedError

    def pieces(self, old: Picture | None, new: Picture) -> Sequence[Piece]:
        """What of a new picture is to be sent after the old one."""
        raise NotImplementedError

    async def attend(self, user: object) -> None:
        """Note who is looking; a list shows no outcomes."""

    async def connect(self) -> None:
        await self.accept()  # a code reaches the browser only on an open socket
        self._viewers: dict[int, Viewer] = {}
        self._changed, self._heard, self._work = asyncio.Event(), deque[float](maxlen=MOST + 1), []
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(NOT_LOGGED_IN)
            return
        if _opened[user.pk] >= MOST_OPEN:
            await self.close(TRY_LATER)
            return
        _opened[user.pk] += 1
        self.counted_for = user.pk
        reader = _reader(user.pk, self.query, whole=self.whole)
        self._viewers = {task: Viewer(reader, self._changed) for task in self.tasks()}
        self._work = [asyncio.create_task(self._write()), asyncio.create_task(self._mind(user.pk))]
        self._work += [asyncio.create_task(self._beat()), asyncio.create_task(self.attend(user.pk))]
        for task, viewer in self._viewers.items():
            await registry().join(task, viewer)

    async def disconnect(self, code: int) -> None:
        for work in self._work:
            work.cancel()
        for task, viewer in self._viewers.items():
            await registry().leave(task, viewer)
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
            self._end(MISUSED)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(self.scope.get("query_string", b"").decode("ascii", "replace"))

    def _end(self, code: int) -> None:
        for viewer in self._viewers.values():
            viewer.end(code)

    async def _write(self) -> None:
        """The one writer of this socket."""
        shown: dict[int, Picture] = {}
        while True:
            await self._changed.wait()
            self._changed.clear()
            over = next((viewer.over for viewer in self._viewers.values() if viewer.over is not None), None)
            if over is not None:
                await self.close(over)
                return
            if pieces := self._news(shown):
                await self.send(text_data="".join(map(carried, pieces)))
                await asyncio.sleep(GAP)

    def _news(self, shown: dict[int, Picture]) -> list[Piece]:
        pieces: list[Piece] = []
        for task, viewer in self._viewers.items():
            if viewer.picture is not None and viewer.picture is not shown.get(task):
                pieces.extend(self.pieces(shown.get(task), viewer.picture))
                shown[task] = viewer.picture
        return pieces

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
        self._end(SESSION_OVER)


class TaskConsumer(_Consumer):
    """The panel of one task."""

    whole = True

    def tasks(self) -> Iterable[int]:
        return [int(self.scope["url_route"]["kwargs"]["task"])]

    def pieces(self, old: Picture | None, new: Picture) -> Sequence[Piece]:
        return difference(old, new)

    async def attend(self, user: object) -> None:
        """Note that somebody is looking while an outcome is awaited, and until a while after it was shown."""
        [(task, viewer)] = self._viewers.items()
        until = 0.0
        while True:
            await asyncio.sleep(LOOK)
            if viewer.picture is not None and viewer.picture.awaited:
                until = time.monotonic() + AFTERWARDS
            if time.monotonic() < until:
                await in_domain(unseen.looked, task, user)


class ButtonConsumer(_Consumer):
    """A Stop button that stands alone."""

    whole = False

    def tasks(self) -> Iterable[int]:
        return [int(self.scope["url_route"]["kwargs"]["task"])]

    def pieces(self, old: Picture | None, new: Picture) -> Sequence[Piece]:
        return [] if old is not None and old.button == new.button else [Piece(new.button)]


class ListConsumer(_Consumer):
    """The rows of the tasks that a list shows."""

    whole = False

    def tasks(self) -> Iterable[int]:
        return listing.named(self.query.get("tasks", [""])[0])

    def pieces(self, old: Picture | None, new: Picture) -> Sequence[Piece]:
        return [] if old is not None and old.in_lists == new.in_lists else [Piece(new.in_lists)]


def _reader(user: object, asked: dict[str, list[str]], *, whole: bool) -> Reader:
    """Language and zone as the page named them, where this site knows them."""
    language, zone = asked.get("language", [""])[0], asked.get("zone", [""])[0]
    known = bool(language) and check_for_language(language)
    return Reader(user, language if known else "", zone if zone in available_timezones() else "", whole)
