"""Situations for the tests of wording."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product

from agentstop.providers.base import Cancel, Capability, LookUp, SubmitIdempotency
from agentstop.states import Cancellation, Claim, OperationState, ReceiptFact, Source, TaskState
from agentstop.words.wording import Situation

PRESS = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = PRESS - timedelta(minutes=1), PRESS + timedelta(minutes=1)
CAPABLE = Capability(
    submit=SubmitIdempotency.NATURAL, look_up=LookUp.BY_KEY, authoritative=True, cancel=Cancel.BEST_EFFORT
)
UNABLE = Capability()
S, T, C = OperationState, TaskState, Cancellation


def receipt(claim: Claim, source: Source, seen: datetime = AFTER, provider_at: datetime | None = None) -> ReceiptFact:
    return ReceiptFact(claim, source, seen, seen, provider_at=provider_at)


def stopped(state: OperationState, *decided_by: ReceiptFact, **more: object) -> Situation:
    values: dict[str, object] = {"stopped_at": PRESS, "decided_by": decided_by, "capability": CAPABLE, **more}
    return Situation(state, T.STOPPED, **values)  # type: ignore[arg-type]  # the fields are those of Situation


DECIDING = {
    S.ACCEPTED: receipt(Claim.ACCEPTED, Source.PROVIDER),
    S.SUCCEEDED: receipt(Claim.SUCCEEDED, Source.PROVIDER),
    S.FAILED: receipt(Claim.FAILED, Source.PROVIDER),
    S.CANCELLED: receipt(Claim.CANCELLED, Source.READ_BACK),
}


def every_situation() -> Iterator[Situation]:
    flags = product([False, True], [None, PRESS], [False, True], [CAPABLE, UNABLE])
    for state, task, cancellation, more in product(S, T, C, list(flags)):
        in_lease, stopped_at, contradictory, capability = more
        decided_by = (DECIDING[state],) if state in DECIDING else ()
        yield Situation(
            state,
            task,
            cancellation,
            in_lease=in_lease,
            stopped_at=stopped_at,
            decided_by=decided_by,
            contradictory=contradictory,
            capability=capability,
        )
