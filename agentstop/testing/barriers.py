"""Barriers on our own side of a send, put there from outside: the product has no hook for them.

P1: the gate's transaction is open, not committed. P2: it is committed, and no byte has left; "P2 sent by anyone" holds
what an agent's own code sends, too. P5: the provider's id is
stored, and the sender is about to ask how it goes on. P8: an answer is read, and nothing of it committed: the response
to a send, or in a worker the reply to its question. P8 locked: within the commit, when the task is locked. P9: in a
worker, a request to cancel is recorded, and no byte of it has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.db import transaction

from agentstop import asking, connectors, database, gate, settle, storing
from agentstop.carry import Carry
from agentstop.models import Operation
from agentstop.passes import Lease, Pass
from agentstop.providers.base import Answer, CancelReply, Submission
from agentstop.providers.http import HttpProvider
from agentstop.sending import in_domain

ANY = "*"
PATIENCE = 60.0  # seconds for which somebody may be held: a hang guard


def shared_client() -> int:
    """Which HTTP client the connector `sandbox` uses in this process, for all tasks."""
    provider = connectors.get("sandbox")
    if not isinstance(provider, HttpProvider):
        raise TypeError(f"the connector `sandbox` is {provider!r:.100}, and no HttpProvider")
    return id(provider._client)


class Barrier:
    """Holds the operations with one key, or `*` for all, at one point; `arrived` is called when one is there."""

    def __init__(self, key: str, arrived: Callable[[], None]) -> None:
        self.key = key
        self._arrived = arrived
        self._open: Future[None] = Future()

    def takes(self, key: str) -> bool:
        return self.key in (ANY, key)

    def pass_by(self) -> None:
        self._arrived()
        self._open.result(PATIENCE)

    async def apass_by(self) -> None:
        self._arrived()
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._open)), PATIENCE)

    def open(self) -> None:
        if not self._open.done():
            self._open.set_result(None)


@contextmanager
def held_at(point: str, barrier: Barrier) -> Iterator[None]:
    """Hold there from now on."""
    patches = {
        "P1": _gate_open,
        "P2": _committed,
        "P2 sent by anyone": _about_to_be_sent,
        "P5": _going_on,
        "P8": _response_read,
        "P8 locked": _task_locked,
        "P9": _cancel_recorded,
    }
    target, name, replacement = patches[point](barrier)
    try:
        with mock.patch.object(target, name, replacement):
            yield
    finally:
        barrier.open()


_Patch = tuple[Any, str, Callable[..., Any]]


def _gate_open(barrier: Barrier) -> _Patch:
    name = "_pass_postgresql" if database.is_postgresql() else "_pass_sqlite"
    let_pass = getattr(gate, name)

    def held(values: dict[str, Any]) -> Any:
        if not barrier.takes(values["key"]):
            return let_pass(values)
        with transaction.atomic(using=database.alias()):
            row = let_pass(values)
            barrier.pass_by()
        return row

    return gate, name, held


def _committed(barrier: Barrier) -> _Patch:
    by_provider = asking.by_provider

    async def held(passed: Pass) -> Answer:
        if barrier.takes(passed.request.key):
            await barrier.apass_by()
        return await by_provider(passed)

    return asking, "by_provider", held


def _about_to_be_sent(barrier: Barrier) -> _Patch:
    send = Carry._send

    async def held(self: Carry) -> Answer:
        if barrier.takes(self.passed.request.key):
            await barrier.apass_by()
        return await send(self)

    return Carry, "_send", held


def _going_on(barrier: Barrier) -> _Patch:
    look_up = asking.look_up

    async def held(connector: str, submission: Submission, *, deadline: float) -> Answer | None:
        if barrier.takes(await in_domain(_key_of, submission.operation)):
            await barrier.apass_by()
        return await look_up(connector, submission, deadline=deadline)

    return asking, "look_up", held


def _response_read(barrier: Barrier) -> _Patch:
    record = settle.record

    def held(operation_id: int, *args: Any, **kwargs: Any) -> Any:
        if barrier.takes(_key_of(operation_id)):
            barrier.pass_by()
        return record(operation_id, *args, **kwargs)

    return settle, "record", held


def _task_locked(barrier: Barrier) -> _Patch:
    lock = storing.locked

    def held(operation_id: int, *, with_task: bool) -> storing.Locked:
        locked = lock(operation_id, with_task=with_task)
        if with_task and barrier.takes(locked.operation.key):
            barrier.pass_by()
        return locked

    return storing, "locked", held


def _cancel_recorded(barrier: Barrier) -> _Patch:
    cancel = asking.cancel

    async def held(connector: str, submission: Submission, lease: Lease) -> CancelReply:
        if barrier.takes(await in_domain(_key_of, submission.operation)):
            await barrier.apass_by()
        return await cancel(connector, submission, lease)

    return asking, "cancel", held


def _key_of(operation_id: int) -> str:
    return Operation.objects.using(database.alias()).get(pk=operation_id).key
