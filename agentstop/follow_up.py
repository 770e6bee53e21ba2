"""When an operation is looked at next, where nobody waits for it any more: due rows, not messages that can be lost."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from agentstop import conf, connectors
from agentstop.models import Operation
from agentstop.states import Cancellation, OperationState


def can_look_up(operation: Operation) -> bool:
    """Whether the provider can be asked about it now: by our key or name, or by a reference that has become known."""
    how = connectors.capability(operation.connector, operation.action).look_up
    return how.possible(operation.ref)


def wants_cancel(operation: Operation) -> bool:
    """Whether to ask the provider (again): a request that may have arrived and got no answer is repeated too."""
    return Cancellation(operation.cancellation) in {Cancellation.REQUESTED, Cancellation.SENT}


def wants_look(operation: Operation) -> bool:
    """Whether its outcome is open; where it made more than one thing, of any of them."""
    is_open = operation.another_open or operation.state in {OperationState.ACCEPTED, OperationState.UNKNOWN}
    return is_open and can_look_up(operation)


def schedule(
    operation: Operation, now: datetime, *, changed: bool, cancel_tries: int = 0, followed: timedelta | None = None
) -> None:
    """Set when it is due; a change starts the back-off anew, and what waits for time alone is due when time has come.

    A request to cancel is due at once, and backs off with each try that did not arrive, whatever changes in between.
    `cancel_tries`: of the job that was asked least often; one that is new is not kept waiting for the others.
    """
    untried = wants_cancel(operation) and not cancel_tries
    if not (wants_cancel(operation) or wants_look(operation)):
        operation.follow_up_at = operation.due_at
        operation.follow_ups = 0
    elif followed is not None and not wants_cancel(operation):
        operation.follow_up_at = now + followed
        operation.follow_ups = 0
    elif changed or operation.follow_up_at is None or (untried and operation.follow_up_at > now):
        operation.follow_up_at = now + _first_wait(operation, cancel_tries)
        operation.follow_ups = 0


def _first_wait(operation: Operation, cancel_tries: int) -> timedelta:
    if not wants_cancel(operation):
        return timedelta(seconds=conf.FOLLOW_UP_BASE)
    return back_off(cancel_tries - 1) if cancel_tries else timedelta(0)


def back_off(follow_ups: int) -> timedelta:
    """The wait after so many look-ups: doubled each time up to the cap, with jitter against thundering herds."""
    seconds = min(conf.FOLLOW_UP_CAP, conf.FOLLOW_UP_BASE * 2 ** min(follow_ups, 30))
    return timedelta(seconds=seconds * random.uniform(0.75, 1.25))  # noqa: S311  jitter, not a secret
