"""Receipts go in here: stored, folded into the operation's state, and admitted to the context if the run is live.

Whatever arrives, late, doubled or contradictory, is kept, and never raises for the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min

from agentstop import bodies, connectors, database, storing, telemetry, telling, wake
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.follow_up import schedule
from agentstop.models import Attempt, Call, ContextEntry, Operation, Receipt
from agentstop.models.facts import CallOutcome
from agentstop.providers.base import LookUp
from agentstop.states import Claim, Folded, Source, TaskState, Verb

UNUSABLE = (bodies.Form.REPR, bodies.Form.ERASED)  # as a result that is given again


@dataclass(frozen=True, slots=True)
class Heard:
    """One piece of evidence, not stored yet. `asked_at` is the database's time before the question left."""

    claim: Claim
    source: Source
    asked_at: datetime
    attempt_id: int | None = None
    ref: str = ""
    body: bodies.Body | None = None  # as evidence: secrets are masked
    result: bodies.Body | None = None  # as it is, for the context
    authoritative: bool = True
    provider_at: datetime | None = None
    answered_at: datetime | None = None  # when the answer was there; None: when it is stored
    event: str = ""  # which message of the provider's it is: the same one is kept once


@dataclass(frozen=True, slots=True)
class Admission:
    """A run's wish to have the result. `error` says why it cannot be used though the effect is there."""

    run: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """What the operation became, and what the run got of it (None: nobody asked, or there is no result yet)."""

    state: str
    outcome: CallOutcome | None = None
    error: str = ""
    repeated: bool = False  # all of it had been kept before: nothing was


def record(
    operation_id: int,
    heard: Sequence[Heard],
    *,
    admission: Admission | None = None,
    followed: timedelta | None = None,
) -> Settled:
    """Store what was heard and fold it in, in one commit; with an admission the task is locked first.

    `followed`: somebody waits for this operation and asks again by himself; the worker leaves it alone for so long.
    """
    with telemetry.span(telemetry.Span.RECEIPT, _told(operation_id, heard)) as span:
        if span.is_recording():
            _link(span, operation_id)
        settled = _record(operation_id, heard, admission, followed)
        span.set_attribute(telemetry.Attribute.STATE, str(settled.state))
    return settled


def _told(operation_id: int, heard: Sequence[Heard]) -> dict[str, Any]:
    return {
        telemetry.Attribute.OPERATION: operation_id,
        telemetry.Attribute.CLAIM: [str(one.claim) for one in heard],
        telemetry.Attribute.SOURCE: [str(one.source) for one in heard],
    }


def _link(span: Any, operation_id: int) -> None:
    """The receipt's span, to the call that the last attempt was sent for, whichever process that was in."""
    tries = Attempt.objects.using(database.alias()).filter(operation=operation_id, verb=Verb.SUBMIT).exclude(trace="")
    parent = tries.order_by("-number").values_list("trace", flat=True).first()
    if parent:
        telemetry.link(span, parent)


@database.retried
def _record(
    operation_id: int, heard: Sequence[Heard], admission: Admission | None, followed: timedelta | None
) -> Settled:
    with database.durable(limited=False):
        locked = storing.locked(operation_id, with_task=admission is not None)
        operation, now = locked.operation, locked.now
        fresh_ones = _not_kept(operation, heard)
        if heard and not fresh_ones:
            return Settled(operation.state, repeated=True)
        receipts = [_receipt(operation, one, now) for one in fresh_ones]
        _fold_in([operation], now, receipts, followed=followed)
        call, entry = None, None
        if admission is not None:
            call, entry = _admit(locked, heard[-1], admission)
        storing.store(receipts=receipts, folded=operation, call=call, entry=entry)
        if operation.compensates_id is not None:  # locked with it: what it undoes reads otherwise if this had no effect
            refold([Operation.objects.using(database.alias()).get(pk=operation.compensates_id)], now)
    wake.announce(operation.task_id)
    return _settled(operation, call)


def _not_kept(operation: Operation, heard: Sequence[Heard]) -> Sequence[Heard]:
    """Without the messages that were kept before; the operation's lock decides between two that arrive at once."""
    events = {one.event for one in heard if one.event}
    if not events:
        return heard
    kept = Receipt.objects.using(database.alias()).filter(operation=operation, event__in=events)
    known = set(kept.values_list("event", flat=True))
    return [one for one in heard if one.event not in known]


def _receipt(operation: Operation, heard: Heard, now: datetime) -> Receipt:
    """The row of a piece of evidence."""
    body = heard.body or bodies.NOTHING
    ref = bodies.safe(heard.ref)[: bodies.LONGEST_REF]
    return Receipt(
        operation=operation,
        attempt_id=heard.attempt_id or _last_of_its_job(operation, heard, ref),
        claim=heard.claim,
        source=heard.source,
        asked_at=min(heard.asked_at, now),
        seen_at=max(min(heard.answered_at or now, now), min(heard.asked_at, now)),
        ref=ref,
        body=body.text,
        form=body.form,
        size=body.size,
        cut=body.cut,
        authoritative=heard.authoritative,
        provider_at=heard.provider_at,
        event=heard.event,
    )


def _last_of_its_job(operation: Operation, heard: Heard, ref: str) -> int | None:
    """A look-up by reference tells of one job: the last attempt that can have made it, and of later ones nothing.

    One that an attempt has returned was made by it or before it; any other by what had passed when it was heard of.
    """
    how = connectors.capability(operation.connector, operation.action).look_up
    if heard.source is not Source.READ_BACK or how is not LookUp.BY_REF:
        return None
    tries = Attempt.objects.using(database.alias()).filter(operation=operation, verb=Verb.SUBMIT).order_by("-number")
    told = Receipt.objects.using(database.alias()).filter(operation=operation, ref=ref or operation.ref)
    returned = tries.filter(receipts__in=told.filter(source=Source.PROVIDER)).values_list("pk", flat=True).first()
    since = told.aggregate(first=Min("seen_at"))["first"]
    if returned is not None or since is None:
        return returned or tries.values_list("pk", flat=True).first()
    return tries.filter(passed_at__lt=since).values_list("pk", flat=True).first()


def refold(operations: Sequence[Operation], now: datetime, *, followed: timedelta | None = None) -> None:
    """Fold the locked operations from all of their facts and store what comes out."""
    _fold_in(operations, now, followed=followed)
    for operation in operations:  # a stop of thousands: one CASE over all of them costs far more than their updates
        storing.store(folded=operation)


def _fold_in(
    operations: Sequence[Operation],
    now: datetime,
    unsaved: Sequence[Receipt] = (),
    *,
    followed: timedelta | None = None,
) -> None:
    """Set what all of their facts, and receipts that are about to be stored, make of the locked operations."""
    facts = facts_of(operations, unsaved)
    tell = telling.asks_for_settlements()
    read = _as_read(operations, now) if tell else {}
    for operation in operations:
        folded = fold(facts[operation.pk], now)
        changed = apply(operation, folded, now, heard=bool(unsaved))
        schedule(operation, now, changed=changed, cancel_tries=folded.cancel_tries, followed=followed)
        if tell:
            telling.of_settlement(operation, read[operation.pk], now)


def _as_read(operations: Sequence[Operation], now: datetime) -> dict[int, str]:
    """What a reader has seen of them up to this moment: time may have made something else of what is stored."""
    due = [operation for operation in operations if operation.due_at is not None and operation.due_at <= now]
    facts = facts_of(due) if due else {}
    read = {operation.pk: str(operation.state) for operation in operations}
    return read | {operation.pk: str(fold(facts[operation.pk], now).state) for operation in due}


def apply(operation: Operation, folded: Folded, now: datetime, *, heard: bool = False) -> bool:
    """Set the cached columns from a fold; True where the state or the cancellation is another one.

    `heard`: a new receipt made the state; otherwise time alone may have, at the moment that was due.
    """
    before = (operation.state, operation.cancellation, operation.another_open)
    changed = before != (folded.state, folded.cancellation, folded.another_open)
    if operation.state != folded.state:
        operation.state = folded.state
        due = operation.due_at if not heard and operation.due_at is not None else now
        operation.state_since = min(due, now)
    operation.cancellation = folded.cancellation
    operation.contradictory = folded.contradictory
    operation.doubled = folded.doubled
    operation.another_open = folded.another_open
    operation.cancel_lease_until = folded.cancel_lease_until
    operation.ref = folded.ref
    operation.folded_at = now
    operation.due_at = folded.due_at
    return changed


def _admit(locked: storing.Locked, heard: Heard, admission: Admission) -> tuple[Call, ContextEntry | None]:
    """What the run gets, decided under the task's lock: its call, and the entry where the result is admitted."""
    body = heard.result or heard.body or bodies.NOTHING
    outcome, error = _outcome(locked, heard, body, admission)
    accepted = outcome is CallOutcome.ACCEPTED
    call = Call(
        operation=locked.operation,
        run=admission.run,
        outcome=outcome,
        error=bodies.safe(error),
        admitted_at=locked.now if accepted else None,
        at=locked.now,
    )
    if not accepted:
        return call, None
    task_id = locked.operation.task_id
    return call, ContextEntry(task_id=task_id, run=admission.run, body=body.text, form=body.form, at=locked.now)


def _outcome(locked: storing.Locked, heard: Heard, body: bodies.Body, admission: Admission) -> tuple[CallOutcome, str]:
    if locked.live_run != admission.run or locked.task_state not in {TaskState.ACTIVE, TaskState.PAUSED}:
        return CallOutcome.IGNORED, ""
    if heard.claim is not Claim.SUCCEEDED:
        return CallOutcome.FAILED, admission.error or f"The operation ended as {heard.claim}: {body.text[:500]}"
    if admission.error:
        return CallOutcome.FAILED, admission.error
    if body.cut:
        return CallOutcome.FAILED, (
            f"The result has {body.size} bytes, more than AGENTSTOP_RESULT_CAP keeps. The effect is recorded as "
            "succeeded, with the beginning of the result; raise the cap or return a reference instead."
        )
    return CallOutcome.ACCEPTED, ""


def _settled(operation: Operation, call: Call | None) -> Settled:
    if call is None:
        return Settled(operation.state)
    return Settled(operation.state, CallOutcome(call.outcome), call.error)


@database.retried
def admit_replay(operation_id: int, run: int) -> tuple[Settled, Any]:
    """Admit the result of an operation that had succeeded before this run asked for it; nothing is sent."""
    with database.durable(limited=False):
        locked = storing.locked(operation_id, with_task=True)
        receipts = Receipt.objects.using(database.alias()).filter(operation=operation_id, claim=Claim.SUCCEEDED)
        receipt = receipts.exclude(source=Source.ACK).latest("seen_at", "pk")
        body, error = _kept(operation_id, receipt)
        heard = Heard(Claim.SUCCEEDED, Source(receipt.source), receipt.asked_at, ref=receipt.ref, body=body)
        call, entry = _admit(locked, heard, Admission(run, error))
        storing.store(call=call, entry=entry)
    wake.announce(locked.operation.task_id)
    return _settled(locked.operation, call), body.value


def _kept(operation_id: int, receipt: Receipt) -> tuple[bodies.Body, str]:
    """The result as it was admitted before, else as the evidence has it; and why that cannot serve, if so."""
    entries = ContextEntry.objects.using(database.alias()).filter(call__operation=operation_id)
    entry = entries.order_by("pk").first()
    if entry is not None and entry.form not in UNUSABLE:
        return bodies.Body(entry.body, bodies.Form(entry.form), len(entry.body.encode())), ""
    body = bodies.Body(receipt.body, bodies.Form(receipt.form), receipt.size, receipt.cut)
    if body.form is bodies.Form.ERASED:
        return body, "It has succeeded before; its result was erased since, and nothing is sent a second time."
    if body.form is bodies.Form.REPR:
        return body, "It has succeeded before; its result has no stored form that could be given again."
    if bodies.MASK in body.text:
        return body, "It has succeeded before; its result was stored with secrets masked, and cannot be given again."
    return body, ""


@database.retried
def refold_due(operation_ids: Sequence[int]) -> int:
    """Fold again what time alone has changed; answers how many operations that was."""
    if not operation_ids:
        return 0
    with database.durable():
        now = database.now()
        operations = list(database.locked(Operation.objects.filter(pk__in=operation_ids, due_at__lte=now)))
        refold(operations, now)
    for task_id in {operation.task_id for operation in operations}:
        wake.announce(task_id)
    return len(operations)


@database.retried
def refold_one(operation_id: int) -> None:
    """Fold an operation from all of its facts, due or not."""
    with database.durable():
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        refold([operation], database.now())


def fresh(operations: Sequence[Operation]) -> None:
    """Bring the cached states of rows that were read up to this moment, in memory only: for readers."""
    now = database.now()
    stale = [operation for operation in operations if operation.due_at is not None and operation.due_at <= now]
    if stale:
        facts = facts_of(stale)
        for operation in stale:
            apply(operation, fold(facts[operation.pk], now), now)
