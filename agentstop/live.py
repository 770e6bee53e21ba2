"""Live: after a change of a task there is one look at it, and what was seen is offered to its viewers.

One subscription to the wake serves all viewers of a process, begun with the first of them. Nothing of the domain runs
on the loop's own thread.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Mapping, Sequence

from agentstop import wake
from agentstop.accounts import account
from agentstop.fragments import Picture
from agentstop.looks import Look, Reader, Variant, Wanted, look
from agentstop.sending import in_domain

logger = logging.getLogger(__name__)

GAP = 0.1  # seconds between two looks at a task, and between two frames to a viewer, at the least
TOGETHER = 20  # tasks that are looked at in one look, at the most
LOOKS = 3  # at a time: one task that is large does not hold up the others
NOT_FOUND = 4404  # close code: there is no such task for this user (any more)
TRY_AGAIN = 1011  # close code: we failed; a client reconnects


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


class Board:
    """One task and all of its viewers on one loop."""

    def __init__(self, task_id: int, due: Callable[[Board], None]) -> None:
        self.task_id = task_id
        self.viewers: set[Viewer] = set()
        self.mark: object = None
        self.relatives: frozenset[int] = frozenset()
        self._due = due
        self._drawn: Mapping[Variant, Picture] = {}
        self._looked = -GAP  # by the loop's clock
        self._looking = self._dirty = False
        self._soon: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        """Have it looked at: at once, or when the last look is long enough ago."""
        self._dirty = True
        if self._looking or self._soon is not None:
            return
        loop = asyncio.get_running_loop()
        self._soon = loop.call_later(max(0.0, self._looked + GAP - loop.time()), self._now_due)

    def _now_due(self) -> None:
        self._due(self)

    def close(self) -> None:
        self._set_timer(None)
        if self._soon is not None:
            self._soon.cancel()

    def begin(self) -> Wanted:
        """A look begins: what changes from now on needs another one."""
        self._looking, self._dirty, self._soon = True, False, None
        return Wanted({viewer.reader for viewer in self.viewers}, self._drawn)

    def show(self, seen: Look, wanted: Wanted) -> None:
        """Offer to each viewer what was seen for them; one who has come meanwhile waits for the next look."""
        self._drawn, self.relatives = seen.pictures, seen.relatives
        for viewer in self.viewers:
            if viewer.reader in seen.variants:
                viewer.offer(seen.pictures[seen.variants[viewer.reader]])
            elif viewer.reader in wanted.readers:
                viewer.end(NOT_FOUND)
        self._set_timer(seen.again_in)

    def fail(self) -> None:
        for viewer in self.viewers:
            viewer.end(TRY_AGAIN)

    def end(self) -> None:
        """The look is over."""
        self._looking, self._looked = False, asyncio.get_running_loop().time()
        if self._dirty and self.viewers:
            self.changed()

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None and self.viewers:  # a moment later than due, so that the fold is past it
            self._timer = asyncio.get_running_loop().call_later(seconds + 0.01, self.changed)


class Desk:
    """Has boards looked at, many in one look where many have changed, and a few looks at a time."""

    def __init__(self) -> None:
        self._due: dict[Board, None] = {}  # in the order in which they became due
        self._looks: set[asyncio.Task[None]] = set()

    def add(self, board: Board) -> None:
        self._due[board] = None
        if sum(not each.done() for each in self._looks) < LOOKS:  # one that is done is still here for a moment
            begun = asyncio.get_running_loop().create_task(self._work())
            self._looks.add(begun)
            begun.add_done_callback(self._looks.discard)

    def close(self) -> None:
        """Nobody watches any more."""
        for under_way in self._looks:
            under_way.cancel()
        self._looks, self._due = set(), {}

    async def _work(self) -> None:
        while self._due:
            boards = list(self._due)[:TOGETHER]
            for board in boards:
                del self._due[board]
            if watched := [board for board in boards if board.viewers]:
                await self._look(watched)

    async def _look(self, boards: Sequence[Board]) -> None:
        wanted = {board.task_id: board.begin() for board in boards}
        try:
            seen = await in_domain(look, wanted)
        except Exception:
            if len(boards) > 1:  # one of them, or all: each is tried alone
                for board in boards:
                    await self._look([board])
                return
            logger.exception("a task could not be shown", extra={"action": "show_failed", "task": boards[0].task_id})
            boards[0].fail()
        else:
            for board in boards:
                board.show(seen[board.task_id], wanted[board.task_id])
        for board in boards:
            board.end()


class Registry:
    """All boards of one loop, and the one subscription that they share."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.boards: dict[int, Board] = {}
        self._desk = Desk()
        self._lock = asyncio.Lock()
        self._forget: Callable[[], None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._again = False

    async def join(self, task_id: int, viewer: Viewer) -> None:
        """From now on the viewer is offered each change, beginning with a picture of what is."""
        async with self._lock:
            board = self.boards.get(task_id)
            if board is None:
                board = self.boards[task_id] = Board(task_id, self._desk.add)
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
                self._desk.close()
                if self._sweeping is not None:
                    self._sweeping.cancel()

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
