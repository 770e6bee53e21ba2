"""What a process holds after many calls of an MCP tool that were begun, cancelled, and waited for by nobody.

python -m bench.mcp.cancelled CALLS
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import tracemalloc
from typing import Any

from bench.http.cancelled import held, resident
from bench.http.rounds import set_up
from bench.mcp.rounds import PATIENCE, options

AT_ONCE = 20
WARM_UP = 1000  # as many as are listened for at the most
LONG = {"seconds": 3600}


def main(calls: int) -> None:
    with tempfile.TemporaryDirectory(prefix="agentstop-bench-") as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/measured.sqlite3"
        set_up()
        asyncio.run(_measure(calls))


async def _measure(calls: int) -> None:
    from agentstop.providers.mcp import McpProvider

    provider = McpProvider(**options())
    await _cancelled(provider, WARM_UP)
    tracemalloc.start()
    before, held_before = held(), resident()
    await _cancelled(provider, calls)
    after, held_after = held(), resident()
    assert provider._link is not None
    still = len(list(provider._link.calls.all()))
    await provider.aclose()
    print(f"\n{calls:,} calls of a tool over stdio, cancelled while it worked ({still:,} still listened for):")
    print(f"Python objects: {before / 1e6:.2f} MB before, {after / 1e6:.2f} MB after")
    print(f"the whole process: {held_before / 1e6:.1f} MB before, {held_after / 1e6:.1f} MB after")


async def _cancelled(provider: Any, calls: int) -> None:
    """So many, twenty at once: each is cancelled when it has begun, and nobody waits for its answer."""
    from agentstop.providers.base import Context, Submission
    from bench.gate.ours import fresh_key

    for _ in range(0, calls, AT_ONCE):
        begun = asyncio.Semaphore(0)
        context = Context(before_write=begun.release, deadline=PATIENCE)
        asked = [Submission(1, "take", LONG, fresh_key()) for _ in range(AT_ONCE)]
        waiting = [asyncio.ensure_future(provider.submit(each, context)) for each in asked]
        for _ in waiting:
            await asyncio.wait_for(begun.acquire(), PATIENCE)
        for each in asked:
            await provider.cancel(each, Context(before_write=lambda: None, deadline=PATIENCE))
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
