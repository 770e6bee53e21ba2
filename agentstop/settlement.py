"""A person settles what no machine can: a receipt of its own rank, with reason, that later evidence stands beside."""

from __future__ import annotations

from typing import Any

from agentstop import bodies, database, permissions, settle, wake
from agentstop.exceptions import AgentStopError, TaskNotFound
from agentstop.models import Decision, Operation, Receipt
from agentstop.models.facts import Decided
from agentstop.settle import Settled
from agentstop.states import FINAL_CLAIMS, Claim, OperationState, Source

SETTLED_BY_HAND = frozenset({OperationState.UNKNOWN, OperationState.ACCEPTED})


class NotSettled(AgentStopError):
    """Evidence has settled this operation, or it is on its way: a person's word would add nothing."""


class SentAgain(NotSettled):
    """It was sent again since the person looked: what they know is not about that."""


def settle_by_hand(
    operation_id: int, *, by: Any, outcome: Claim | str, reason: str, attempts: int | None = None
) -> Settled:
    """Record that this person settles the operation as succeeded, failed or cancelled, and why.

    It decides where the provider has not been heard to differ since. `attempts`: how many the person saw; where it was
    sent again since, their word is not about that, and nothing is settled (SentAgain). Raises ValueError without a
    reason or for another outcome, NotSettled where there is nothing to settle by hand, Denied or TaskNotFound.
    """
    claim = _outcome(outcome)
    reason = bodies.reason(reason).strip()
    if not reason:
        raise ValueError("Say on what evidence it is settled: reason= is what others will read beside it.")
    operation = Operation.objects.using(database.alias()).select_related("task").filter(pk=operation_id).first()
    if operation is None:
        raise TaskNotFound(f"There is no operation {operation_id} for you.")
    permissions.require(by, "settle_operation", operation.task, Decided.SETTLE, reason=reason)
    settled = _commit(operation_id, by, claim, reason, attempts)
    wake.announce(operation.task_id)
    return settled


def _outcome(outcome: Claim | str) -> Claim:
    known = sorted(FINAL_CLAIMS)
    if outcome not in known:
        raise ValueError(f"outcome must be one of {', '.join(known)}, not {outcome!r}.")
    return Claim(outcome)


@database.retried
def _commit(operation_id: int, by: Any, claim: Claim, reason: str, attempts: int | None) -> Settled:
    with database.durable():
        operation = database.locked(Operation.objects.filter(pk=operation_id)).get()
        now = database.now()
        settle.refold([operation], now)
        if attempts is not None and operation.attempts != attempts:
            raise SentAgain(
                f"Operation {operation_id} was sent again since you looked. Look again before you settle it."
            )
        if operation.state not in SETTLED_BY_HAND:
            raise NotSettled(
                f"Operation {operation_id} is {operation.state}: only an unknown outcome, or one that the provider has "
                "accepted and not answered, is settled by hand."
            )
        Decision.objects.using(database.alias()).create(
            task_id=operation.task_id,
            operation=operation,
            verb=Decided.SETTLE,
            by=by,
            reason=reason,
            detail={"outcome": claim},
            at=now,
        )
        body = bodies.store(reason)
        Receipt.objects.using(database.alias()).create(
            operation=operation,
            claim=claim,
            source=Source.PERSON,
            asked_at=now,
            seen_at=now,
            by=by,
            body=body.text,
            form=body.form,
            size=body.size,
            cut=body.cut,
        )
        settle.refold([operation], now)
    return Settled(operation.state)
