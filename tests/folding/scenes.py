"""Facts for the tests of folding, with times written as seconds after one start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from agentstop.folds.folding import fold
from agentstop.states import (
    AttemptFact,
    CancelFacts,
    Claim,
    Folded,
    OperationFacts,
    OperationState,
    ReceiptFact,
    Source,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER_OLD = 1e7

StateFold = Callable[[OperationFacts, datetime], OperationState]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seconds(moment: datetime) -> float:
    return (moment - START).total_seconds()


def attempt(
    number: int, passed: float, lease: float, settled: float | None = None, max_age: float = NEVER_OLD
) -> AttemptFact:
    settling = timedelta(seconds=0 if settled is None else settled - lease)
    return AttemptFact(number, at(passed), at(lease), settling, timedelta(seconds=max_age))


def receipt(
    claim: str,
    source: str,
    asked: float,
    seen: float | None = None,
    attempt: int | None = None,
    *,
    ref: str = "",
    authoritative: bool = True,
) -> ReceiptFact:
    seen_at = at(asked if seen is None else seen)
    return ReceiptFact(Claim(claim), Source(source), at(asked), seen_at, attempt, ref, authoritative)


def read_back(
    claim: str, asked: float, seen: float | None = None, *, ref: str = "", authoritative: bool = True
) -> ReceiptFact:
    """The provider's answer to a look-up."""
    answered = asked + 0.5 if seen is None else seen
    return receipt(claim, "read_back", asked, answered, ref=ref, authoritative=authoritative)


def answer(claim: str, seen: float, attempt: int = 1, *, ref: str = "", asked: float | None = None) -> ReceiptFact:
    """The provider's answer to a send."""
    return receipt(claim, "provider", seen if asked is None else asked, seen, attempt, ref=ref)


def push(claim: str, seen: float, *, ref: str = "") -> ReceiptFact:
    return receipt(claim, "provider", seen, ref=ref)


def person(claim: str, seen: float) -> ReceiptFact:
    return receipt(claim, "person", seen)


def lost(seen: float, attempt: int = 1) -> ReceiptFact:
    return receipt("lost", "sender", seen, attempt=attempt)


def unsent(seen: float, attempt: int = 1) -> ReceiptFact:
    return receipt("unsent", "sender", seen, attempt=attempt)


def facts(
    attempts: Sequence[AttemptFact],
    receipts: Sequence[ReceiptFact] = (),
    *,
    refused: bool = False,
    compensated: float | None = None,
    cancel: CancelFacts = CancelFacts(),
) -> OperationFacts:
    compensated_at = None if compensated is None else at(compensated)
    return OperationFacts(tuple(attempts), tuple(receipts), refused, compensated_at, cancel)


def folded(attempts: Sequence[AttemptFact], receipts: Sequence[ReceiptFact], now: float = 50) -> Folded:
    return fold(facts(attempts, receipts), at(now))


def state(facts_: OperationFacts, now: datetime) -> OperationState:
    """The product's fold as the checks take it: to a state alone."""
    return fold(facts_, now).state
