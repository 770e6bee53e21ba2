"""Processes that end while a send is under way: python -m tests.leaving MODE TASK RUN

The tool answers only when the main thread has ended, or never; what it answered is then in the database, or not.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable

import django

django.setup()

from django.conf import settings  # noqa: E402  settings first
from django.db import connections  # noqa: E402

from agentstop.dispatched import Dispatched  # noqa: E402
from agentstop.runs import Run  # noqa: E402
from agentstop.stop import stop  # noqa: E402

ENTERED = threading.Event()


def late(op: Dispatched) -> str:
    """Answers after the end of the main thread."""
    ENTERED.set()
    threading.main_thread().join()
    return "late"


async def alate(op: Dispatched) -> str:
    ENTERED.set()
    while threading.main_thread().is_alive():
        await asyncio.sleep(0.01)
    return "late"


def never(op: Dispatched) -> None:
    ENTERED.set()
    threading.Event().wait()


def call(run: Run, tool: Callable[[Dispatched], object], key: str = "k") -> None:
    run.call("write", {}, connector="tools", key=key, send=tool)


def ends(run: Run, tool: Callable[[Dispatched], object] = late) -> None:
    threading.Thread(target=call, args=(run, tool), daemon=True).start()
    ENTERED.wait()


def leaves(run: Run) -> None:
    ends(run)
    sys.exit(3)


def ends_with_a_coroutine(run: Run) -> None:
    ends(run, alate)


def ends_its_loop(run: Run) -> None:
    """The caller's loop is closed, and its call cancelled, while the send goes on."""

    async def main() -> None:
        asyncio.create_task(run.acall("write", {}, connector="tools", key="k", send=late))  # noqa: RUF006  left behind
        await asyncio.to_thread(ENTERED.wait)

    asyncio.run(main())


def forks(run: Run) -> None:
    """A child made by a process that has sent before sends by a loop of its own."""
    call(run, lambda op: "parent", key="parent")
    connections.close_all()
    child = os.fork()
    if not child:
        call(run, lambda op: "child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def forks_a_worker(run: Run) -> None:
    """As `multiprocessing` does; the child ends with a send under way."""
    call(run, lambda op: "parent", key="parent")
    connections.close_all()
    child = multiprocessing.get_context("fork").Process(target=ends, args=(run,))
    child.start()
    child.join()
    assert child.exitcode == 0


def stops(run: Run) -> None:
    """Another process presses Stop."""
    stop(run.task_id)


def ends_in_vain(run: Run) -> None:
    settings.AGENTSTOP_DRAIN = 0.2
    ends(run, never)


if __name__ == "__main__":
    settings.AGENTSTOP_CONNECTORS = {"tools": {}}
    mode, task, number = sys.argv[1:]
    globals()[mode](Run(int(task), int(number)))
