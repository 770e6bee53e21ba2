"""What a process holds after many gated calls whose callers were cancelled in the middle of the write.

python -m bench.http.cancelled CALLS
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import tracemalloc
from typing import Any

from bench.http.server import serving

AT_ONCE = 20
WARM_UP = 500


def main(calls: int) -> None:
    with tempfile.TemporaryDirectory(prefix="agentstop-bench-") as folder:
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/measured.sqlite3"
        _measure(calls)


def _measure(calls: int) -> None:
    from bench.http.rounds import set_up

    set_up()
    from agentstop.runs import begin
    from bench.gate.rounds import end

    with serving() as address, begin("measured") as run:
        asyncio.run(_cancelled(address, run, WARM_UP))
        tracemalloc.start()
        before, held_before = held(), resident()
        answered = asyncio.run(_cancelled(address, run, calls))
        after, held_after = held(), resident()
    end()
    print(f"\n{calls:,} gated calls, cancelled in the middle of the write ({calls - answered:,} of them in time):")
    print(f"Python objects: {before / 1e6:.2f} MB before, {after / 1e6:.2f} MB after")
    print(f"the whole process: {held_before / 1e6:.1f} MB before, {held_after / 1e6:.1f} MB after")


async def _cancelled(address: str, run: Any, calls: int) -> int:
    """So many, twenty at once; how many had their answer before they were cancelled."""
    import httpx

    from agentstop.integrations.http.for_httpx import AsyncGatedTransport
    from agentstop.integrations.http.scope import through
    from agentstop.sending import sender
    from bench.gate.ours import fresh_key

    answered = 0
    async with httpx.AsyncClient(base_url=address, transport=AsyncGatedTransport("tools")) as client:

        async def one() -> None:
            with through(run, key=fresh_key()):
                await client.post("/charges", json={"amount": 7})

        for _ in range(0, calls, AT_ONCE):
            tasks = [asyncio.ensure_future(one()) for _ in range(AT_ONCE)]
            await asyncio.sleep(0.002)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            answered += sum(not isinstance(end, BaseException) for end in ends)
            while len(sender()._open) > AT_ONCE:  # what was sent goes on to its receipt
                await asyncio.sleep(0.005)
        while sender()._open:
            await asyncio.sleep(0.01)
    return answered


def held() -> int:
    gc.collect()
    if not tracemalloc.is_tracing():
        return 0
    return tracemalloc.get_traced_memory()[0]


def resident() -> int:
    gc.collect()
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(int(sys.argv[1]))
