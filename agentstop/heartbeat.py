"""Heartbeats: the lease of an attempt is extended while its process lives, so that a dead one is noticed soon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta

from agentstop import conf, database, settle
from agentstop.models import Attempt, Operation
from agentstop.passes import Pass, ticks
from agentstop.sending import in_domain, sender

logger = logging.getLogger(__name__)


@contextmanager
def kept_alive(passed: Pass) -> Iterator[None]:
    """Renew the attempt's lease until the block is left or its deadline has passed."""
    if passed.request.deadline <= passed.lease.seconds:
        yield  # it cannot outlive its first lease
        return
    ended: Future[None] = Future()
    sender().start(lambda: _beat(passed, ended))
    try:
        yield
    finally:
        ended.set_result(None)


async def _beat(passed: Pass, ended: Future[None]) -> None:
    waiting = asyncio.wrap_future(ended)
    while passed.left:
        await asyncio.wait({waiting}, timeout=passed.lease.seconds / 3)
        if waiting.done():
            return
        asked = ticks()
        try:
            if not await in_domain(renew, passed):
                return  # it was over already: what the attempt had leave for may have been given to another
            passed.lease.renew(asked)
        except Exception:
            logger.warning("a heartbeat was not stored", exc_info=True, extra={"operation": passed.operation})


def renew(passed: Pass) -> bool:
    """Extend the lease, unless it is over; one way only, by the database's clock."""
    return extend(passed.operation, passed.attempt_id, passed.lease.seconds)


@database.retried
def extend(operation_id: int, attempt_id: int, seconds: float) -> bool:
    """As `renew`, for an attempt that is named: so many seconds from now, and a margin."""
    using = database.alias()
    with database.durable():
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        lease_until = now + timedelta(seconds=seconds + conf.LEASE_MARGIN)
        attempt = Attempt.objects.using(using).filter(pk=attempt_id, operation=operation)
        if not attempt.filter(lease_until__gt=now).update(lease_until=lease_until):
            return False
        if attempt.filter(number=operation.attempts).exists():
            operation.lease_until = lease_until
            Operation.objects.using(using).filter(pk=operation.pk).update(lease_until=lease_until)
        settle.refold([operation], now)
    return True
