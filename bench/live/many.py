"""Many open pages and many changes a second: how many arrive before the next change of the same page, and how soon."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

PAGES = 200  # each of a task of its own
CHANGES = 200  # a second, in turn
SECONDS = 5
WORDS = {"paused": "Paused since", "active": "Running since"}


async def many(address: str, tasks: list[int], url: str, change: str, tell: str) -> str:
    """A sentence with what was found."""
    import psycopg
    from websockets.asyncio.client import connect

    pages = [Page(task) for task in tasks]
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(await psycopg.AsyncConnection.connect(url))
        await database.execute("SET synchronous_commit = off")
        await database.commit()
        for page in pages:
            ws = await stack.enter_async_context(connect(f"{address}ws/agentstop/tasks/{page.task}/", max_size=None))
            await ws.recv()
            page.reading = asyncio.create_task(page.read(ws))
        begun = time.perf_counter()
        for number in range(CHANGES * SECONDS):
            await asyncio.sleep(max(0.0, begun + number / CHANGES - time.perf_counter()))
            page = pages[number % PAGES]
            page.expect("paused" if number // PAGES % 2 == 0 else "active")
            await database.execute(change, [page.wanted, page.task])
            await database.execute(tell, [str(page.task), ""])
            await database.commit()
        lasted = time.perf_counter() - begun
        await asyncio.sleep(PAGES / CHANGES)  # the last ones have as long as the others
        for page in pages:
            page.reading.cancel()
    return _told(pages, lasted)


class Page:
    """One socket, and the change that it has not shown yet."""

    def __init__(self, task: int) -> None:
        self.task, self.wanted = task, ""
        self.since: float | None = None
        self.took: list[float] = []
        self.reading: asyncio.Task[None]

    def expect(self, state: str) -> None:
        """What was not shown by now is never counted as delivered."""
        self.wanted, self.since = state, time.perf_counter()

    async def read(self, ws: Any) -> None:
        async for frame in ws:
            if self.since is not None and WORDS[self.wanted] in frame:
                self.took.append(time.perf_counter() - self.since)
                self.since = None


def _told(pages: list[Page], lasted: float) -> str:
    took = sorted(each for page in pages for each in page.took)
    made = CHANGES * SECONDS
    middle, late = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99)) if took else (0.0, 0.0)
    return (
        f"{PAGES} open pages, {made / lasted:.0f} changes a second: {len(took)} of {made} were shown before the next "
        f"change of the same page ({len(took) / made:.0%}), p50 {middle:.0f} ms, p99 {late:.0f} ms after the commit."
    )
