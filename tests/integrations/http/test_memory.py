"""Calls that were cancelled leave nothing behind (R43): no task, signal, flight or request."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from agentstop.integrations.http.flight import Flight
from agentstop.integrations.http.for_httpx import AsyncGatedTransport
from agentstop.integrations.http.scope import through
from agentstop.integrations.http.sending import Sending
from agentstop.models import Operation
from agentstop.runs import Run, begin
from tests.counted import eventually, left_over
from tests.integrations.http.server import Reply, Server

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = (Flight, Sending, httpx.Request, httpx.Response, asyncio.Task)
BATCH = 20


async def cancelled(client: httpx.AsyncClient, run: Run, server: Server, go: threading.Event, first: int) -> None:
    """So many writes, all held by the server, and their callers cancelled."""

    async def one(number: int) -> Any:
        with through(run, key=f"k{number}"):
            return await client.post("/charges")

    tasks = [asyncio.ensure_future(one(number)) for number in range(first, first + BATCH)]
    for _ in tasks:
        await asyncio.to_thread(server.wait)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    go.set()


def kept() -> dict[str, int]:
    gc.collect()
    return dict(Counter(type(each).__name__ for each in gc.get_objects() if type(each) in KINDS))


def test_cancelled_calls_leave_nothing_behind(ann: User, server: Server) -> None:
    run = begin("many", owner=ann)
    gated = AsyncGatedTransport("keyed")

    async def batch(first: int) -> None:
        go = threading.Event()
        server.script = [Reply(wait=go)]
        async with httpx.AsyncClient(transport=gated, base_url=server.address) as client:
            await cancelled(client, run, server, go, first)

    counts = []
    for number in range(3):
        asyncio.run(batch(number * BATCH))
        done = Operation.objects.filter(task=run.task_id, state="succeeded")
        eventually(done.count, (number + 1) * BATCH)
        eventually(left_over, {})
        counts.append(kept())
    assert counts[2] == counts[1]
    assert len(gated.flights) == 0
