"""Every kind of receipt that the fold tells apart: each claim a source can make, late and early, weak and strong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentstop.states import AttemptFact, ReceiptFact
from tests.folding.scenes import attempt, receipt


class Kind(NamedTuple):
    """A receipt but for its moment."""

    claim: str
    source: str
    attempt: int | None = None
    weak: bool = False  # a look-up that is not authoritative
    early: bool = False  # asked before all others, so that it overlaps with them


def kinds(attempts: int) -> list[Kind]:
    """23 kinds for one attempt, 29 for two: those that answer a send exist once an attempt."""
    numbers = range(1, attempts + 1)
    sent = [Kind(claim, "sender", n) for claim in ("unsent", "lost") for n in numbers]
    sent += [Kind(c, "provider", n) for c in ("refused", "accepted", "succeeded", "failed") for n in numbers]
    pushed = [Kind(claim, "provider") for claim in ("progress", "succeeded", "cancelled")]
    looked = [Kind(c, "read_back") for c in ("running", "succeeded", "failed", "cancelled", "not_found")]
    looked += [Kind("not_found", "read_back", weak=True)]
    looked += [Kind(claim, "read_back", early=True) for claim in ("succeeded", "cancelled")]
    settled = [Kind(claim, "person") for claim in ("succeeded", "failed", "not_found")]
    hearsay = [Kind("cancelled", "intermediary"), Kind("running", "intermediary"), Kind("cancelled", "ack")]
    return [*sent, *pushed, *looked, *settled, *hearsay]


def heard(kind: Kind, slot: int) -> ReceiptFact:
    """The receipt of this kind that is heard in a slot of time; slots come after every attempt's pass."""
    seen = 11.0 + slot
    asked = 10.5 if kind.early else seen - 0.3
    return receipt(kind.claim, kind.source, asked, seen, kind.attempt, authoritative=not kind.weak)


def attempts_of_each_shape() -> Iterator[list[AttemptFact]]:
    """One attempt and two, with the last lease over and alive."""
    yield [attempt(1, 1, 5, 6)]
    yield [attempt(1, 1, 1000, 1000)]
    yield [attempt(1, 1, 5, 6), attempt(2, 7, 8, 9)]
    yield [attempt(1, 1, 5, 6), attempt(2, 7, 1000, 1000)]
