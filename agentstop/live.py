"""Live: after each change of a task it is read once, drawn once for each kind of reader, and offered to its viewers.

One subscription to the wake serves all viewers of a process, begun with the first of them. Nothing of the domain runs
on the loop's own thread.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone, translation

from agentstop import permissions, wake
from agentstop.accounts import account, selection
from agentstop.fragments import Picture, draw
from agentstop.reports import report
from agentstop.reports.role import Role
from agentstop.sending import in_domain

logger = logging.getLogger(__name__)

GAP = 0.1  # seconds between two looks at a task, and between two frames to a viewer, at the least
NOT_FOUND = 4404  # close code: there is no such task for this user (any more)
TRY_AGAIN = 1011  # close code: we failed; a client reconnects


@dataclass(frozen=True, slots=True)
class Reader:
    """For whom it is drawn: a user, and the language and time zone of their page."""

    user: object  # primary key
    language: str
    zone: str
    whole: bool = True  # the panel; else the row of a list alone


class Viewer:
    """One socket's slot for one task: it holds the newest picture alone, however slowly the socket takes them."""

    def __init__(self, reader: Reader, changed: asyncio.Event) -> None:
        self.reader = reader
        self.picture: Picture | None = None
        self.over: int | None = None  # the close code
        self.changed = changed  # of all slots of the socket

    def offer(self, picture: Picture) -> None:
        self.picture = picture
        self.changed.set()

    def end(self, code: int) -> None:
        self.over = self.over or code
        self.changed.set()


_Variant = tuple[str, str, Role, bool]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look gave: the pictures by variant, whose they are, and in how many seconds time changes something."""

    pictures: Mapping[_Variant, Picture]
    variants: Mapping[Reader, _Variant]  # without the readers who may not see it
    again_in: float | None
    relatives: frozenset[int] = frozenset()  # tasks that are named in it


def look(task_id: int, readers: Collection[Reader], before: Mapping[_Variant, Picture]) -> Look:
    """Read the task and draw it for these readers, each of whom is checked anew."""
    choice = selection.PANEL if any(reader.whole for reader in readers) else selection.ROW
    found = account.load(task_id, choice)
    if found is None:
        return Look({}, {}, None)
    users = get_user_model()._default_manager.in_bulk({reader.user for reader in readers})
    variants = {
        reader: (
            reader.language,
            reader.zone,
            Role.of(users[reader.user], found.task, found.family.relatives),
            reader.whole,
        )
        for reader in readers
        if reader.user in users and permissions.sees(users[reader.user], found.task)
    }
    pictures = {}
    for variant in set(variants.values()):
        language, zone, role, whole = variant
        with (
            translation.override(language or settings.LANGUAGE_CODE),
            timezone.override(ZoneInfo(zone) if zone else None),
        ):
            drawn = before[variant].rows if variant in before else {}
            pictures[variant] = draw(report.tell(found), role, drawn, whole=whole)
    changes_at = found.changes_at
    again_in = (changes_at - found.now).total_seconds() if changes_at is not None else None
    return Look(pictures, variants, again_in, frozenset(relative.pk for relative in found.family.relatives))


class Board:
    """One task and all of its viewers on one loop."""

    def __init__(self, task_id: int) -> None:
        self.task_id = task_id
        self.viewers: set[Viewer] = set()
        self.mark: object = None
        self.relatives: frozenset[int] = frozenset()
        self._dirty = asyncio.Event()
        self._drawn: Mapping[_Variant, Picture] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._worker = asyncio.create_task(self._work())

    def changed(self) -> None:
        self._dirty.set()

    def close(self) -> None:
        self._worker.cancel()
        self._set_timer(None)

    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._show()
            except Exception:
                logger.exception("a task could not be shown", extra={"action": "show_failed", "task": self.task_id})
                for viewer in self.viewers:
                    viewer.end(TRY_AGAIN)
            await asyncio.sleep(GAP)

    async def _show(self) -> None:
        viewers = list(self.viewers)
        seen = await in_domain(look, self.task_id, {viewer.reader for viewer in viewers}, self._drawn)
        self._drawn, self.relatives = seen.pictures, seen.relatives
        for viewer in viewers:
            if viewer.reader in seen.variants:
                viewer.offer(seen.pictures[seen.variants[viewer.reader]])
            else:
                viewer.end(NOT_FOUND)
        self._set_timer(seen.again_in)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # A moment later than due, so that the fold is past it.
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds + 0.01, self.changed)


class Registry:
    """All boards of one loop, and the one subscription that they share."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.boards: dict[int, Board] = {}
        self._lock = asyncio.Lock()
        self._forget: Callable[[], None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._again = False

    async def join(self, task_id: int, viewer: Viewer) -> None:
        """From now on the viewer is offered each change, beginning with a picture of what is."""
        async with self._lock:
            board = self.boards.get(task_id)
            if board is None:
                board = self.boards[task_id] = Board(task_id)
            board.viewers.add(viewer)
            if self._forget is None:  # before the first look, or what changes in between is missed
                self._forget = await in_domain(wake.subscribe, self._woken)
        board.changed()

    async def leave(self, task_id: int, viewer: Viewer) -> None:
        async with self._lock:
            board = self.boards.get(task_id)
            if board is not None:
                board.viewers.discard(viewer)
                if not board.viewers:
                    self.boards.pop(task_id).close()
            if not self.boards and self._forget is not None:
                forget, self._forget = self._forget, None
                forget()

    def _woken(self, task_ids: frozenset[int] | None, over: bool) -> None:
        """Called on the wake's thread."""
        try:
            self._loop.call_soon_threadsafe(self._hear, task_ids)
        except RuntimeError:
            pass  # the loop has ended, and its viewers with it

    def _hear(self, task_ids: frozenset[int] | None) -> None:
        if task_ids is None:
            self._sweep()
            return
        for task_id, board in self.boards.items():
            if task_id in task_ids or not board.relatives.isdisjoint(task_ids):
                board.changed()

    def _sweep(self) -> None:
        """Any task may have changed: find out which did, once at a time."""
        self._again = True
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._find_changed())

    async def _find_changed(self) -> None:
        while self._again and self.boards:
            self._again = False
            try:
                marks = await in_domain(account.marks, list(self.boards))
            except Exception:
                logger.warning("looking for changed tasks failed; the next wake tries again", exc_info=True)
                return
            for task_id, board in self.boards.items():
                mark = marks.get(task_id)
                if mark is None or mark != board.mark:
                    board.mark = mark
                    board.changed()


_registries: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Registry] = weakref.WeakKeyDictionary()


def registry() -> Registry:
    """The running loop's registry. Begun at the first need: daphne tells no application that it has started."""
    loop = asyncio.get_running_loop()
    if loop not in _registries:
        _registries[loop] = Registry()
    return _registries[loop]
