"""One database's rounds, in a process of its own; prints its figures as JSON.

DATABASE_URL=… python -m bench.mcp.rounds ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from bench.gate.figures import Part
from bench.http.rounds import Subjects, in_turn, set_up

PATIENCE = 60.0  # seconds for a call
ARGS = {"text": "The report for the third quarter is ready."}

Call = Callable[[], Coroutine[Any, Any, Any]]


def main(rounds: int, calls: int, seconds: float) -> Part:
    """The SDK's own call, the connector's without a gate, and the whole gated one, in turn."""
    set_up()
    from agentstop.runs import begin
    from bench.gate.rounds import end, version

    until = time.monotonic() + seconds
    part = Part(f"{version()}, MCP over stdio")
    connect()
    with begin("measured") as run, subjects(run) as found:
        in_turn(part, found, rounds, calls, until)
    end()
    return part


def connect() -> None:
    """The connector `mcp` leads to a server of its own."""
    from bench.settings import AGENTSTOP_CONNECTORS

    AGENTSTOP_CONNECTORS["mcp"] = {"PROVIDER": "agentstop.providers.mcp.McpProvider", "OPTIONS": options()}


def options() -> dict[str, Any]:
    from agentstop.providers.mcp import McpTool
    from bench.mcp.server import COMMAND, FOLDER

    tools = {"echo": McpTool(), "take": McpTool(cancel="ask")}
    return {"command": COMMAND, "cwd": FOLDER, "tools": tools}


@contextmanager
def subjects(run: Any) -> Iterator[Subjects]:
    """Each over a connection of its own, to a server of its own."""
    from bench.gate.ours import fresh_key

    def gated() -> None:
        outcome = run.call("echo", ARGS, key=fresh_key(), connector="mcp")
        assert outcome.accepted, outcome

    with looping() as loop, connected(loop) as (by_the_sdk, by_the_connector):

        def sync(call: Call) -> Callable[[], None]:
            return lambda: asyncio.run_coroutine_threadsafe(call(), loop).result(PATIENCE)

        yield [
            ("bare call by the SDK", sync(by_the_sdk)),
            ("call by the connector, ungated", sync(by_the_connector)),
            ("whole gated call", gated),
        ]


@contextmanager
def looping() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, as agentstop's is."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def connected(loop: asyncio.AbstractEventLoop) -> Iterator[tuple[Call, Call]]:
    """What calls the tool by the SDK, and what calls it by the connector, while both are connected."""
    ready: Future[tuple[Call, Call]] = Future()
    over = asyncio.Event()
    holding = asyncio.run_coroutine_threadsafe(_hold(ready, over), loop)
    try:
        yield _first_of(ready, holding)
    finally:
        loop.call_soon_threadsafe(over.set)
        holding.result(PATIENCE)


def _first_of(ready: Future[tuple[Call, Call]], holding: Future[None]) -> tuple[Call, Call]:
    """What is ready; where the block has ended before, what ended it is raised."""
    either: list[Future[Any]] = [ready, holding]
    done, _ = wait(either, PATIENCE, FIRST_COMPLETED)
    if holding in done:
        holding.result()
    return ready.result(0)


async def _hold(ready: Future[tuple[Call, Call]], over: asyncio.Event) -> None:
    """In one task from beginning to end, as the SDK demands."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from agentstop.providers.base import Context, Submission
    from agentstop.providers.mcp import McpProvider
    from agentstop.states import Claim
    from bench.gate.ours import fresh_key
    from bench.mcp.server import COMMAND, FOLDER

    program, *words = COMMAND
    provider = McpProvider(**options())
    context = Context(before_write=lambda: None, deadline=PATIENCE)

    async def by_the_connector() -> None:
        answer = await provider.submit(Submission(1, "echo", ARGS, fresh_key()), context)
        assert answer.claim is Claim.SUCCEEDED, answer

    async with Client(stdio_client(StdioServerParameters(command=program, args=words, cwd=FOLDER))) as client:

        async def by_the_sdk() -> None:
            assert not (await client.call_tool("echo", ARGS)).is_error

        ready.set_result((by_the_sdk, by_the_connector))
        await over.wait()
        await provider.aclose()


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(found)))
