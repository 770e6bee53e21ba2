"""Waiting for cancels to be confirmed, for those who want to: the stop itself is committed, and waits for nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from agentstop import database, reconcile, wake
from agentstop.models import Operation
from agentstop.passes import ticks
from agentstop.sending import sender
from agentstop.states import OPEN_CANCELLATIONS, Cancellation
from agentstop.stop import StopReport

PAUSE = 0.5  # seconds between two looks where nothing has woken the wait


def confirm(report: StopReport, *, deadline: float) -> dict[int, Cancellation]:
    """Wait until no cancel that this stop asked for is open, at most `deadline` seconds; the stop holds all the same.

    Answers how far cancelling got, for each operation that was open, of the task and of those below it. Does their
    follow-up work meanwhile.
    """
    left = (*report.open, *report.open_below)
    over, woken = ticks() + deadline, threading.Event()
    unsubscribe = wake.subscribe(lambda task_ids, ended: woken.set())
    try:
        while True:
            found = _cancellations(left)
            if not any(one in OPEN_CANCELLATIONS for one in found.values()) or ticks() >= over:
                return found
            reconcile.start(among=left)  # whoever answers wakes this; a provider that hangs delays nothing
            woken.wait(max(0.0, min(PAUSE, over - ticks())))
            woken.clear()
    finally:
        unsubscribe()


def _cancellations(ids: Sequence[int]) -> dict[int, Cancellation]:
    rows = database.by_id(Operation, ids)
    return {pk: Cancellation(word) for pk, word in rows.values_list("pk", "cancellation")}


async def aconfirm(report: StopReport, *, deadline: float) -> dict[int, Cancellation]:
    """As `confirm`, on a thread of its own."""
    return await asyncio.wrap_future(sender().blocking.submit(confirm, report, deadline=deadline))
