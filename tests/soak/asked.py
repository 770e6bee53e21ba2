"""How far cancelling got, read anew from the rules and without the product's folds."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tests.soak.mirror import Attempt, Decision, Mirror, Operation, Receipt


def cancellation(
    refs: Collection[str], mirror: Mirror, operation: Operation, state: str, now: datetime, *, another_open: bool
) -> str:
    """The word for an operation in this state, whose jobs with these references may go on."""
    last_pass = max((attempt.passed_at for attempt in mirror.submits(operation.id)), default=None)
    asked = [
        decision
        for decision in mirror.of(Decision, operation.id)
        if (decision.verb, decision.effect) == ("cancel", "applied") and (last_pass is None or decision.at >= last_pass)
    ]
    if not asked:
        return "none"
    if state == "cancelled":
        return "confirmed"
    if state in ("prepared", "not_sent", "succeeded", "failed") and not another_open:
        return "moot"
    if not asked[-1].detail["possible"]:
        return "unsupported"
    until = max((decision.until for decision in asked if decision.until is not None), default=None)
    given_up = until is not None and now >= until
    needed = refs or ([] if asked[-1].detail["needs_ref"] else [""])
    if not needed:
        return "undeliverable" if given_up else "waiting"
    found = {_of_a_job(mirror, operation, ref, asked[0].at, given_up=given_up) for ref in needed}
    return next(word for word in ("requested", "sent", "acknowledged", "undeliverable", "refused") if word in found)


def _of_a_job(mirror: Mirror, operation: Operation, ref: str, since: datetime, *, given_up: bool) -> str:
    """How far it got for the job of one reference, by the requests that named it or none."""
    tries = [a for a in mirror.of(Attempt, operation.id) if a.verb == "cancel" and a.passed_at >= since]
    tries = [a for a in tries if a.ref in ("", ref)]
    replies = {a.id: [r.claim for r in mirror.of(Receipt, operation.id) if r.attempt_id == a.id] for a in tries}
    if any("cancelled" in reply for reply in replies.values()):
        return "acknowledged"
    last = replies[max(tries, key=lambda one: one.number).id] if tries else None
    if last is not None and "refused" in last:
        return "refused"
    if last is not None and (not last or "lost" in last):
        return "sent"
    return "undeliverable" if given_up else "requested"
