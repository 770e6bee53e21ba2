"""The rounds of open pages, in a process of its own; prints its figures as JSON.

DATABASE_URL=… python -m bench.live.rounds ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from bench.gate.figures import Figures, Part
from bench.gate.run import ROOT
from bench.live.many import PAGES, many

WARM_UP = 5  # changes that are not counted
REST = 0.15  # seconds between two changes: a page takes a frame each 0.1 s at the most
PATIENCE = 30.0  # seconds for a server that starts and for a frame
SUBJECTS = {
    "bare LISTEN-to-websocket echo": "bare/{}/",
    "echo that reads and draws the task": "drawn/{}/",
    "open page of the task": "ws/agentstop/tasks/{}/",
}
# A commit that a page has to show. It is not durable: what is measured begins with it.
CHANGE = "UPDATE agentstop_task SET state = %s, state_since = clock_timestamp() WHERE id = %s"
TELL = "SELECT pg_notify('agentstop', %s), pg_notify('bench', %s)"


def main(rounds: int, calls: int, seconds: float) -> Part:
    """A frame on each kind of socket after a commit, in turn; then many pages at once."""
    tasks = set_up()
    with serving() as address:
        return asyncio.run(measured(address, tasks, rounds, calls, seconds))


def set_up() -> list[int]:
    """A database with running tasks of one user: their ids."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.live.settings"
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from agentstop.runs import begin

    call_command("migrate", verbosity=0)
    owner = User.objects.create_user("ann")
    return [begin(f"task {number}", owner=owner).task_id for number in range(PAGES)]


@contextmanager
def serving() -> Iterator[str]:
    """daphne on the measured site: the address of its websockets, for the length of a block."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ["daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0", "bench.live.site:application"]
    with subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT) as process:
        try:
            _until_it_answers(port)
            yield f"ws://127.0.0.1:{port}/"
        finally:
            process.terminate()


def _until_it_answers(port: int) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
            return
        except ConnectionError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)


async def measured(address: str, tasks: list[int], rounds: int, calls: int, seconds: float) -> Part:
    import psycopg
    from websockets.asyncio.client import connect

    until = time.monotonic() + seconds
    url = os.environ["DATABASE_URL"]
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(await psycopg.AsyncConnection.connect(url))
        await database.execute("SET synchronous_commit = off")
        await database.commit()
        part = Part("PostgreSQL, from the commit to the frame", [Figures(name, 1) for name in SUBJECTS])
        sockets = []
        for task, place in zip(tasks, SUBJECTS.values(), strict=False):
            ws = await stack.enter_async_context(connect(address + place.format(task), max_size=None))
            await ws.recv()  # it is ready, or the snapshot
            sockets.append((ws, task))
        for ws, task in sockets:
            await frames(database, ws, task, WARM_UP)
        for _ in part.rounds(rounds, until):
            for figures, (ws, task) in zip(part.figures, sockets, strict=True):
                figures.rounds.append(await frames(database, ws, task, calls))
    part.missing.append(await many(address, tasks, url, CHANGE, TELL))
    return part


async def frames(database: Any, ws: Any, task: int, calls: int) -> list[float]:
    """Seconds from each commit to the first frame that came of it."""
    took = []
    for number in range(calls):
        await asyncio.sleep(REST)
        await database.execute(CHANGE, ["paused" if number % 2 == 0 else "active", task])
        await database.execute(TELL, [str(task), str(task)])
        begun = time.perf_counter()
        await database.commit()
        while await asyncio.wait_for(ws.recv(), PATIENCE) == "{}":
            pass  # a sign of life
        took.append(time.perf_counter() - begun)
    return took


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(found)))
