"""How far cancelling one operation got, folded from what was asked, tried and answered. Pure.

A request names a reference, or none: then it is about all that has the operation's key. Where several jobs may still
have their effect, each is asked to be given up, and what is said of all is what the least cancelled of them is at.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from agentstop.states import FINAL_STATES, CancelFacts, Cancellation, CancelTry, Claim, OperationState

__all__ = ["Asked", "fold_cancellation", "may_arrive_until"]

_NOTHING_TO_CANCEL = FINAL_STATES | {OperationState.PREPARED, OperationState.NOT_SENT}
_DUE = frozenset({Cancellation.REQUESTED, Cancellation.SENT})
# While one job's request is open, the operation's is: its key must not be sent again meanwhile.
_LEAST_FIRST = (
    Cancellation.REQUESTED,
    Cancellation.SENT,
    Cancellation.ACKNOWLEDGED,
    Cancellation.UNDELIVERABLE,
    Cancellation.REFUSED,
)


class Asked(NamedTuple):
    """How far cancelling got, when time alone will change that, and what is to be sent now.

    `due`: the references to name, "" for the key alone. `tries`: how often the least tried of those was asked before.
    `of_jobs`: how far it got for each job that may still have its effect.
    """

    word: Cancellation
    due_at: datetime | None = None
    due: tuple[str, ...] = ()
    tries: int = 0
    of_jobs: tuple[tuple[str, Cancellation], ...] = ()


def fold_cancellation(
    cancel: CancelFacts, state: OperationState, *, refs: Sequence[str], now: datetime, another_open: bool = False
) -> Asked:
    """`refs`: the references of jobs that may still have their effect."""
    if cancel.asked_at is None:
        return Asked(Cancellation.NONE)
    if state is OperationState.CANCELLED:
        return Asked(Cancellation.CONFIRMED)
    if state in _NOTHING_TO_CANCEL and not another_open:
        return Asked(Cancellation.MOOT)
    if not cancel.possible:
        return Asked(Cancellation.UNSUPPORTED)
    targets = tuple(refs) or (() if cancel.needs_ref else ("",))
    if targets:
        return _fold_targets(cancel, targets, now)
    return Asked(Cancellation.UNDELIVERABLE) if _given_up(cancel, now) else Asked(Cancellation.WAITING, cancel.until)


def _fold_targets(cancel: CancelFacts, targets: Sequence[str], now: datetime) -> Asked:
    words = {ref: _word(cancel, _tries(cancel, ref), now) for ref in targets}
    word = min(words.values(), key=_LEAST_FIRST.index)
    waiting = [ref for ref in targets if words[ref] in _DUE]
    due = tuple(ref for ref in waiting if not _given_up(cancel, now) and not _on_its_way(cancel, ref, now))
    tries = min((len(_tries(cancel, ref)) for ref in waiting), default=0)
    due_at = cancel.until if word is Cancellation.REQUESTED else None
    return Asked(word, due_at, due, tries, tuple(words.items()))


def _tries(cancel: CancelFacts, ref: str) -> list[CancelTry]:
    """The requests about this job: those that named it, and those that named the key alone."""
    about = [each for each in cancel.tries if each.ref in (ref, "")]
    return sorted(about, key=lambda each: each.number)


def _word(cancel: CancelFacts, tries: Sequence[CancelTry], now: datetime) -> Cancellation:
    if any(Claim.CANCELLED in _heard(cancel, each) for each in tries):
        return Cancellation.ACKNOWLEDGED
    heard = _heard(cancel, tries[-1]) if tries else None
    if heard is not None and Claim.REFUSED in heard:
        return Cancellation.REFUSED
    if heard is not None and (not heard or Claim.LOST in heard):
        return Cancellation.SENT  # it may have arrived, so "could not be delivered" would claim too much
    return Cancellation.UNDELIVERABLE if _given_up(cancel, now) else Cancellation.REQUESTED


def _heard(cancel: CancelFacts, one: CancelTry) -> set[Claim]:
    return {answer.claim for answer in cancel.answers if answer.attempt == one.number}


def _on_its_way(cancel: CancelFacts, ref: str, now: datetime) -> bool:
    tries = _tries(cancel, ref)
    return bool(tries) and tries[-1].lease_until > now and not _heard(cancel, tries[-1])


def may_arrive_until(cancel: CancelFacts) -> datetime | None:
    """Until when one of the requests may still be on its way; None where each is known to have ended."""
    open_ones = (each for each in cancel.tries if _heard(cancel, each) <= {Claim.LOST})
    return max((each.lease_until for each in open_ones), default=None)


def _given_up(cancel: CancelFacts, now: datetime) -> bool:
    return cancel.until is not None and now >= cancel.until
