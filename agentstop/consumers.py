"""The websockets of panels and lists: pieces of HTML go out, and nothing that comes in is used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agentstop import fragments, listing, unseen
from agentstop.fragments import Picture, Piece, carried
from agentstop.live import GAP, Viewer, registry
from agentstop.looks import Reader
from agentstop.sending import in_domain
from agentstop.sockets import Socket

LOOK = 5.0  # seconds between two notes that somebody is looking
AFTERWARDS = 60.0  # seconds for which they are taken after an awaited outcome was shown


class _Consumer(Socket):
    """Shows tasks to one reader, from a snapshot on; closed for good when they may not see one of them any more."""

    whole: bool  # shows panels, not rows alone
    viewers: Mapping[int, Viewer] = MappingProxyType({})

    def tasks(self) -> Iterable[int]:
        """Which tasks the address names."""
        raise NotImplementedError

    def frame(self, old: Picture | None, new: Picture) -> str:
        """What is to be sent of a new picture after the old one; empty where nothing is."""
        raise NotImplementedError

    async def attend(self, user: object) -> None:
        """Note who is looking; a list shows no outcomes."""

    async def begin(self, user: object) -> None:
        self._changed = asyncio.Event()
        reader = Reader(user, self.language, self.zone, self.whole)
        self.viewers = {task: Viewer(reader, self._changed) for task in self.tasks()}
        self.work += [asyncio.create_task(self._write()), asyncio.create_task(self.attend(user))]
        for task, viewer in self.viewers.items():
            await registry().join(task, viewer)

    async def leave(self) -> None:
        for task, viewer in self.viewers.items():
            await registry().leave(task, viewer)

    async def over(self, code: int) -> None:
        for viewer in self.viewers.values():
            viewer.end(code)

    async def _write(self) -> None:
        """The one writer of this socket."""
        shown: dict[int, Picture] = {}
        while True:
            await self._changed.wait()
            self._changed.clear()
            over = next((viewer.over for viewer in self.viewers.values() if viewer.over is not None), None)
            if over is not None:
                await self.close(over)
                return
            if frame := self._news(shown):
                await self.send(text_data=frame)
                await asyncio.sleep(GAP)

    def _news(self, shown: dict[int, Picture]) -> str:
        frames: list[str] = []
        for task, viewer in self.viewers.items():
            if viewer.picture is not None and viewer.picture is not shown.get(task):
                frames.append(self.frame(shown.get(task), viewer.picture))
                shown[task] = viewer.picture
        return "".join(frames)


class TaskConsumer(_Consumer):
    """The panel of one task."""

    whole = True

    def tasks(self) -> Iterable[int]:
        return [int(self.scope["url_route"]["kwargs"]["task"])]

    def frame(self, old: Picture | None, new: Picture) -> str:
        return fragments.frame(old, new)

    async def attend(self, user: object) -> None:
        """Note that somebody is looking while an outcome is awaited, and until a while after it was shown."""
        [(task, viewer)] = self.viewers.items()
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

    def frame(self, old: Picture | None, new: Picture) -> str:
        return "" if old is not None and old.button == new.button else carried(Piece(new.button))


class ListConsumer(_Consumer):
    """The rows of the tasks that a list shows."""

    whole = False

    def tasks(self) -> Iterable[int]:
        return listing.named(self.query.get("tasks", [""])[0])

    def frame(self, old: Picture | None, new: Picture) -> str:
        return "" if old is not None and old.in_lists == new.in_lists else carried(Piece(new.in_lists))
