"""Receipts go in here: stored, folded into the operation's state, and admitted to the context if the run is live.

Whatever arrives, late, doubled or contradictory, is kept, and never raises for the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentstop import bodies, database, wake
from agentstop.facts import facts_of
from agentstop.folding import fold
from agentstop.follow_up import schedule
from agentstop.models import Call, ContextEntry, Operation, Receipt, Task
from agentstop.models.facts import CallOutcome
from agentstop.states import Claim, Folded, Source, TaskState

FOLDED = (
    "state",
    "state_since",
    "cancellation",
    "contradictory",
    "doubled",
    "ref",
    "folded_at",
    "due_at",
    "follow_up_at",
    "follow_ups",
)


@dataclass(frozen=True, slots=True)
class Heard:
    """One piece of evidence, not stored yet. `asked_at` is the database's time before the question left."""

    claim: Claim
    source: Source
    asked_at: datetime
    attempt_id: int | None = None
    ref: str = ""
    body: bodies.Body | None = None
    authoritative: bool = True
    provider_at: datetime | None = None


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


@database.retried
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
    with database.durable():
        operation = Operation.objects.using(database.alias()).only("task_id").get(pk=operation_id)
        task = _locked_task(operation.task_id) if admission is not None else None
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        add_receipts(operation, heard, now)
        refold([operation], now, followed=followed)
        outcome, error = None, ""
        if admission is not None and task is not None:
            outcome, error = _admit(task, operation, heard[-1], admission, now)
    wake.announce(operation.task_id)
    return Settled(operation.state, outcome, error)


def _locked_task(task_id: int) -> Task:
    return database.locked(Task.objects.filter(pk=task_id)).get()


def add_receipts(operation: Operation, heard: Sequence[Heard], now: datetime) -> None:
    """Append evidence within a transaction that holds the operation's lock."""
    rows = []
    for one in heard:
        body = one.body or bodies.Body("", bodies.Form.TEXT, 0)
        ref = bodies.safe(one.ref)
        rows.append(
            Receipt(
                operation=operation,
                attempt_id=one.attempt_id,
                claim=one.claim,
                source=one.source,
                asked_at=min(one.asked_at, now),
                seen_at=now,
                ref=ref,
                body=body.text,
                form=body.form,
                size=body.size,
                cut=body.cut,
                authoritative=one.authoritative,
                provider_at=one.provider_at,
            )
        )
        if ref:
            operation.ref = ref
    Receipt.objects.using(database.alias()).bulk_create(rows)


def refold(operations: Sequence[Operation], now: datetime, *, followed: timedelta | None = None) -> None:
    """Fold the locked operations from all of their facts and store what comes out."""
    facts = facts_of(operations)
    for operation in operations:
        folded = fold(facts[operation.pk], now)
        changed = apply(operation, folded, now)
        tries = len(facts[operation.pk].cancel.tries)
        schedule(operation, now, changed=changed, cancel_tries=tries, followed=followed)
    if len(operations) == 1:
        operations[0].save(using=database.alias(), update_fields=FOLDED)
    else:
        Operation.objects.using(database.alias()).bulk_update(operations, FOLDED, batch_size=200)


def apply(operation: Operation, folded: Folded, now: datetime) -> bool:
    """Set the cached columns from a fold; True where the state or the cancellation is another one."""
    changed = bool(operation.state != folded.state or operation.cancellation != folded.cancellation)
    if operation.state != folded.state:
        operation.state = folded.state
        operation.state_since = now
    operation.cancellation = folded.cancellation
    operation.contradictory = folded.contradictory
    operation.doubled = folded.doubled
    operation.folded_at = now
    operation.due_at = folded.due_at
    return changed


def _admit(
    task: Task, operation: Operation, heard: Heard, admission: Admission, now: datetime
) -> tuple[CallOutcome, str]:
    """Decide, under the task's lock, what the run gets, and write it down once."""
    body = heard.body or bodies.Body("", bodies.Form.TEXT, 0)
    outcome, error = _outcome(task, heard, body, admission)
    calls = Call.objects.using(database.alias())
    if (
        outcome is CallOutcome.ACCEPTED
        and calls.filter(operation=operation, run=admission.run, outcome=CallOutcome.ACCEPTED).exists()
    ):
        return outcome, error  # admitted before: a repeated call in the same run
    call = calls.create(
        operation=operation,
        run=admission.run,
        outcome=outcome,
        error=bodies.safe(error),
        admitted_at=now if outcome is CallOutcome.ACCEPTED else None,
        at=now,
    )
    if outcome is CallOutcome.ACCEPTED:
        ContextEntry.objects.using(database.alias()).create(
            task=task, run=admission.run, call=call, body=body.text, form=body.form, at=now
        )
    return outcome, error


def _outcome(task: Task, heard: Heard, body: bodies.Body, admission: Admission) -> tuple[CallOutcome, str]:
    if task.live_run != admission.run or task.state not in {TaskState.ACTIVE, TaskState.PAUSED}:
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


@database.retried
def admit_replay(operation_id: int, run: int) -> tuple[Settled, Any]:
    """Admit the result of an operation that had succeeded before this run asked for it; nothing is sent."""
    with database.durable():
        operation = Operation.objects.using(database.alias()).only("task_id").get(pk=operation_id)
        task = _locked_task(operation.task_id)
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        receipts = Receipt.objects.using(database.alias()).filter(operation=operation, claim=Claim.SUCCEEDED)
        receipt = receipts.exclude(source=Source.ACK).latest("seen_at", "pk")
        body = bodies.Body(receipt.body, bodies.Form(receipt.form), receipt.size, receipt.cut)
        heard = Heard(Claim.SUCCEEDED, Source(receipt.source), receipt.asked_at, ref=receipt.ref, body=body)
        outcome, error = _admit(task, operation, heard, Admission(run), database.now())
    wake.announce(operation.task_id)
    return Settled(operation.state, outcome, error), body.value


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


def fresh(operations: Sequence[Operation]) -> None:
    """Bring the cached states of rows that were read up to this moment, in memory only: for readers."""
    now = database.now()
    stale = [operation for operation in operations if operation.due_at is not None and operation.due_at <= now]
    if stale:
        facts = facts_of(stale)
        for operation in stale:
            apply(operation, fold(facts[operation.pk], now), now)
