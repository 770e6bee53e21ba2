"""Reconciling: due operations are cancelled and looked up until they are final. It reads, and never creates an effect.

What is due are rows, taken by lease, so that any number of workers share them and none is lost in a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db.models import QuerySet

from agentstop import asking, bodies, conf, connectors, database, permissions, settle, wake
from agentstop.exceptions import TaskNotFound
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.follow_up import back_off, can_look_up, wants_cancel, wants_look
from agentstop.models import Attempt, Decision, Operation
from agentstop.models.facts import Decided
from agentstop.passes import Lease
from agentstop.providers.base import Answer, CancelReply
from agentstop.sending import in_domain, sender
from agentstop.settle import Heard, Settled
from agentstop.states import FINAL_STATES, Claim, Source, Verb

logger = logging.getLogger(__name__)

ELSEWHERE = timedelta(seconds=30)  # until a row is looked at again that only the process which sent it can follow up
OVERDUE = timedelta(seconds=60)  # rows that wait longer than this show that no worker runs


def work(limit: int = 50, *, among: Sequence[int] | None = None) -> int:
    """Do what is due now, at most `limit` operations at once (only `among` these ids); answers how many there were."""
    begun = start(limit, among=among)
    for future in begun:
        future.result()
    return len(begun)


def start(limit: int = 50, *, among: Sequence[int] | None = None) -> list[Future[None]]:
    """As `work`, without waiting for their ends: one provider that hangs must not delay what is due at others."""
    return [sender().start(partial(_follow_up, due)) for due in _claim(limit, among)]


def next_due() -> datetime | None:
    """When the next operation falls due; None while nothing waits."""
    due = Operation.objects.using(database.alias()).filter(follow_up_at__isnull=False)
    return due.order_by("follow_up_at").values_list("follow_up_at", flat=True).first()


def overdue() -> int:
    """How many operations have waited so long that evidently nothing does the follow-up work."""
    return waiting_too_long().count()


def waiting_too_long() -> QuerySet[Operation]:
    """The operations that `overdue` counts."""
    since = database.now() - OVERDUE
    return Operation.objects.using(database.alias()).filter(follow_up_at__lt=since)


def look_up_now(operation_id: int, *, by: Any) -> bool:
    """A person wants to know now; False where the provider cannot be asked about this operation."""
    asked = begin_look_up(operation_id, by=by)
    if asked is None:
        return False
    _within(asked, conf.DEADLINE + 5)
    return True


def begin_look_up(operation_id: int, *, by: Any) -> Future[Settled | None] | None:
    """The same, without waiting: a future of what it became, None where no answer came; None where nobody is asked."""
    operation = Operation.objects.using(database.alias()).select_related("task").filter(pk=operation_id).first()
    if operation is None:
        raise TaskNotFound(f"There is no operation {operation_id} for you.")
    permissions.require(by, "view_task", operation.task, Decided.LOOK_UP)
    Decision.objects.using(database.alias()).create(
        task_id=operation.task_id, operation=operation, verb=Decided.LOOK_UP, by=by, at=database.now()
    )
    asked = sender().start(lambda: asking.look(operation)) if can_look_up(operation) else None
    wake.announce(operation.task_id)
    return asked


def _within(looking: Future[Any], seconds: float) -> None:
    """A person does not wait longer: the look-up goes on, and its answer is shown when it is there."""
    try:
        looking.result(seconds)
    except TimeoutError:
        logger.warning("a look-up that a person asked for takes long", extra={"action": "look_up_slow"})


@dataclass(frozen=True, slots=True)
class Due:
    """An operation that this worker has taken, until `lease`."""

    operation: Operation
    lease: datetime


@database.retried
def _claim(limit: int, among: Sequence[int] | None) -> Sequence[Due]:
    with database.durable():
        now = database.now()
        due = Operation.objects.using(database.alias()).filter(follow_up_at__lte=now).order_by("follow_up_at", "pk")
        if among is not None:
            due = due.filter(pk__in=among)
        ids = list(due.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)[:limit])
        operations = list(database.locked(Operation.objects.filter(pk__in=ids)))
        settle.refold([operation for operation in operations if _is_stale(operation, now)], now)
        lease = now + timedelta(seconds=2 * conf.DEADLINE + conf.LEASE_MARGIN)
        wanted = [operation for operation in operations if wants_cancel(operation) or wants_look(operation)]
        here = [operation for operation in wanted if asking.reaches(operation)]
        _due([operation for operation in wanted if operation not in here], now + ELSEWHERE)
        _due(here, lease)
    for task_id in {operation.task_id for operation in operations}:
        wake.announce(task_id)
    return [Due(operation, lease) for operation in here]


def _due(operations: Sequence[Operation], at: datetime) -> None:
    rows = Operation.objects.using(database.alias()).filter(pk__in=[operation.pk for operation in operations])
    rows.update(follow_up_at=at)


async def turn(operation_id: int) -> bool:
    """One turn for an operation that perhaps no other process reaches; False once there is nothing to do for it here.

    For the process that has sent it, which comes again as long as this says so.
    """
    due = await in_domain(_take, operation_id)
    if due is not None and (wants_cancel(due.operation) or wants_look(due.operation)):
        await _follow_up(due)
    return due is not None


@database.retried
def _take(operation_id: int) -> Due | None:
    with database.durable():
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        settle.refold([operation], now)
        if not operation.is_open or not asking.reaches(operation):
            return None
        lease = now + timedelta(seconds=2 * conf.DEADLINE + conf.LEASE_MARGIN)
        if wants_cancel(operation) or wants_look(operation):
            _due([operation], lease)
    return Due(operation, lease)


def _is_stale(operation: Operation, now: datetime) -> bool:
    return (operation.due_at is not None and operation.due_at <= now) or not (
        wants_cancel(operation) or wants_look(operation)
    )


async def _follow_up(due: Due) -> None:
    """One turn for one operation; whatever goes wrong, it is due again later."""
    try:
        open_still = await _cancel(due.operation) if wants_cancel(due.operation) else True
        if open_still and wants_look(due.operation):
            await asking.look(due.operation)
    except Exception:
        logger.exception("following up failed; trying again later", extra={"operation": due.operation.pk})
    await in_domain(_reschedule, due)


@database.retried
def _reschedule(due: Due) -> None:
    """The next turn, by back-off; left alone where the fold has set another time meanwhile."""
    rows = Operation.objects.using(database.alias()).filter(pk=due.operation.pk, follow_up_at=due.lease)
    with database.durable():
        wait = back_off(due.operation.follow_ups)
        rows.update(follow_up_at=database.now() + wait, follow_ups=due.operation.follow_ups + 1)


async def _cancel(operation: Operation) -> bool:
    """Ask the provider to give it up, recorded before it is sent, as every attempt; False once the outcome is known."""
    lease = Lease(conf.DEADLINE)
    attempts = await in_domain(_begin_cancel, operation.pk)
    settled = await asyncio.gather(*(_ask_to_cancel(operation, attempt, copy(lease)) for attempt in attempts))
    return not any(state in FINAL_STATES for state in settled)


async def _ask_to_cancel(operation: Operation, attempt: Attempt, lease: Lease) -> str:
    """Send one request that is recorded already; answers the operation's state after the reply."""
    submission = asking.submission_of_row(operation, attempt.ref)
    reply = await asking.cancel(operation.connector, submission, lease)
    settled = await asking.keep(operation.pk, _heard(reply, attempt, operation))
    return settled.state


@database.retried
def _begin_cancel(operation_id: int) -> Sequence[Attempt]:
    """Record the next requests to cancel before they are sent, one for each job; none where none is to be sent now."""
    with database.durable():
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        settle.refold([operation], now)
        due = fold(facts_of([operation])[operation.pk], now).cancel_due if wants_cancel(operation) else ()
        attempts = [_request(operation, ref, now) for ref in due]
        if attempts:
            settle.refold([operation], now)
    if attempts:
        wake.announce(operation.task_id)
    return attempts


def _request(operation: Operation, ref: str, now: datetime) -> Attempt:
    tries = Attempt.objects.using(database.alias()).filter(operation=operation, verb=Verb.CANCEL)
    return tries.create(
        operation=operation,
        verb=Verb.CANCEL,
        number=tries.count() + 1,
        passed_at=now,
        lease_until=now + timedelta(seconds=conf.DEADLINE + conf.LEASE_MARGIN),
        settling=timedelta(0),
        max_age=timedelta(0),
        ref=ref,
    )


def _heard(reply: CancelReply, attempt: Attempt, operation: Operation) -> list[Heard]:
    """Two kinds of evidence: what became of the request, and what the provider said about the effect, if anything."""
    asked = attempt.passed_at
    source = {Claim.CANCELLED: Source.ACK, Claim.UNSENT: Source.SENDER, Claim.LOST: Source.SENDER}
    request = Heard(
        claim=reply.claim,
        source=source.get(reply.claim, Source.PROVIDER),
        asked_at=asked,
        attempt_id=attempt.pk,
        body=bodies.store(reply.body),
    )
    answer = reply.answer
    capability = connectors.capability(operation.connector, operation.action)
    if answer is None and reply.claim is Claim.CANCELLED and capability.ack_is_final:
        answer = Answer(Claim.CANCELLED, body=reply.body)
    if answer is None:
        return [request]
    effect = asking.heard(answer, asked)
    return [request, replace(effect, ref=_told_of(effect.ref, attempt, operation, by_ref=capability.cancel_needs_ref))]


def _told_of(ref: str, attempt: Attempt, operation: Operation, *, by_ref: bool) -> str:
    """Which job a reply is about: asked by a reference, that one; by the key, of several the one that it names."""
    if by_ref:
        return attempt.ref
    return ref if ref or operation.doubled else attempt.ref
