"""What receipts are worth before anything is decided: which attempts each speaks for, and which final words stand.

Pure, like all of the folding; the rule numbers are those of the concepts page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from agentstop.states import (
    FINAL_CLAIMS,
    SIGNS_OF_LIFE,
    AttemptFact,
    Claim,
    OperationFacts,
    ReceiptFact,
    Source,
)

__all__ = [
    "NO_EFFECT",
    "POSITIVE",
    "PROVIDERS_WORD",
    "WEAK",
    "Evidence",
    "Heard",
    "answers_a_send",
    "attempts_of",
    "in_time",
    "receipts_of",
    "standing",
    "weigh",
]

PROVIDERS_WORD = frozenset({Source.READ_BACK, Source.PROVIDER})
WEAK = frozenset({Source.ACK, Source.INTERMEDIARY})  # they speak about the provider and are not it
POSITIVE = FINAL_CLAIMS | SIGNS_OF_LIFE
NO_EFFECT = frozenset({Claim.FAILED, Claim.CANCELLED})
OF_ONE_SEND = frozenset({Claim.UNSENT, Claim.ENDED, Claim.LOST, Claim.REFUSED})


class Heard(NamedTuple):
    """A receipt and the numbers of the attempts that it speaks for."""

    receipt: ReceiptFact
    about: frozenset[int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was heard about one operation, sorted by what it is worth."""

    attempts: tuple[AttemptFact, ...]
    everyone: frozenset[int]
    heard: tuple[Heard, ...]
    finals: tuple[Heard, ...]  # the provider's final words, but for those that an undoing explains
    words: tuple[Heard, ...]  # those of them that stand
    signs: tuple[Heard, ...]  # signs of life
    absences: tuple[Heard, ...]  # authoritative look-ups that found nothing
    proofs: tuple[Heard, ...]  # refused, unsent, not found: each closes its attempts
    no_effect: frozenset[int]  # the attempts that failed or cancelled cover
    refused: frozenset[int]

    def reach(self, heard: Heard) -> frozenset[int]:
        """The attempts that a positive word may come from: it comes from somewhere, so from any where none is known."""
        return heard.about or self.everyone

    @property
    def closed(self) -> frozenset[int]:
        """The attempts that are known to be over without a success."""
        return attempts_of(self.proofs) | self.no_effect


def weigh(facts: OperationFacts) -> Evidence:
    """The evidence in these facts; the order in which it arrived is gone after this."""
    receipts = sorted(facts.receipts, key=in_time)
    answers = [receipt for receipt in receipts if answers_a_send(receipt)]
    heard = tuple(Heard(receipt, _speaks_for(receipt, facts.attempts, answers)) for receipt in receipts)
    finals = _final_words(heard, facts.compensated_at)
    words = standing(finals, several=len(facts.attempts) > 1)
    return Evidence(
        attempts=facts.attempts,
        everyone=frozenset(attempt.number for attempt in facts.attempts),
        heard=heard,
        finals=finals,
        words=words,
        signs=tuple(h for h in heard if _is_sign_of_life(h.receipt)),
        absences=tuple(h for h in heard if _found_nothing(h.receipt)),
        proofs=tuple(h for h in heard if _is_closing(h.receipt, facts.compensated_at)),
        no_effect=attempts_of(h for h in words if h.receipt.claim in NO_EFFECT),
        refused=attempts_of(h for h in heard if _is_refused(h.receipt)),
    )


def attempts_of(heard: Iterable[Heard]) -> frozenset[int]:
    """The numbers of all attempts that these speak for."""
    return frozenset().union(*(h.about for h in heard))


def receipts_of(heard: Iterable[Heard]) -> tuple[ReceiptFact, ...]:
    """Their receipts, each once, earliest first."""
    return tuple(sorted({h.receipt for h in heard}, key=in_time))


def in_time(receipt: ReceiptFact) -> tuple[datetime, datetime, str, str, int, str, bool, int, datetime]:
    """A total order, so that equal sets of receipts are equal sequences."""
    return (
        receipt.seen_at,
        receipt.asked_at,
        receipt.claim,
        receipt.source,
        -1 if receipt.attempt is None else receipt.attempt,
        receipt.ref,
        receipt.authoritative,
        receipt.id,
        receipt.provider_at or receipt.seen_at,
    )


def _is_closing(receipt: ReceiptFact, compensated_at: datetime | None) -> bool:
    """Refused, proven unsent, ended without effect, or not found by a look-up from before anything was undone."""
    if receipt.claim is Claim.ENDED:
        return receipt.source is Source.SENDER
    if receipt.claim is Claim.UNSENT:
        return receipt.source in (Source.SENDER, Source.PROVIDER)
    return _is_refused(receipt) or (_found_nothing(receipt) and not _is_after(receipt, compensated_at))


def _speaks_for(
    receipt: ReceiptFact, attempts: Sequence[AttemptFact], answers: Sequence[ReceiptFact]
) -> frozenset[int]:
    """Rule 1: an answer to a send is about that one; most others are about all that had passed when it was asked."""
    if receipt.claim in OF_ONE_SEND or (receipt.source is Source.PROVIDER and receipt.attempt is not None):
        return frozenset(attempt.number for attempt in attempts if attempt.number == receipt.attempt)
    if receipt.claim is Claim.NOT_FOUND:
        return _absent(receipt, attempts, answers)
    if receipt.claim in NO_EFFECT and receipt.source is not Source.PERSON and len(attempts) > 1:
        return _denied(receipt, attempts, answers)
    return frozenset(attempt.number for attempt in attempts if attempt.passed_at < receipt.asked_at)


def _denied(receipt: ReceiptFact, attempts: Sequence[AttemptFact], answers: Sequence[ReceiptFact]) -> frozenset[int]:
    """Those that a failed or cancelled outside an answer is about: a push speaks by its reference alone."""
    same = {answer.attempt for answer in answers if answer.ref and answer.ref == receipt.ref}
    if receipt.source is not Source.READ_BACK:
        return frozenset(attempt.number for attempt in attempts if attempt.number in same)
    other = {answer.attempt for answer in answers if answer.ref and receipt.ref and answer.ref != receipt.ref}
    over = {a.number for a in attempts if _over_at(a, answers) < receipt.asked_at and _can_tell_of(receipt, a)}
    return frozenset(attempt.number for attempt in attempts if attempt.number in same | (over - other))


def _can_tell_of(look: ReceiptFact, attempt: AttemptFact) -> bool:
    """Asked by a reference, a provider tells of one job: later attempts may have made another."""
    return look.attempt is None or attempt.number <= look.attempt


def _over_at(attempt: AttemptFact, answers: Sequence[ReceiptFact]) -> datetime:
    """From when on a look-up sees what the attempt did: it was answered, or lease and settling time are over."""
    return min([attempt.settled_at, *(answer.seen_at for answer in answers if answer.attempt == attempt.number)])


def _absent(receipt: ReceiptFact, attempts: Sequence[AttemptFact], answers: Sequence[ReceiptFact]) -> frozenset[int]:
    """Those that a look-up which found nothing is about; asked by a reference, only those that returned it."""
    if not receipt.authoritative:
        return frozenset()
    settled = frozenset(a.number for a in attempts if a.settled_at < receipt.asked_at and _can_tell_of(receipt, a))
    if not receipt.ref:
        return settled
    return settled & {answer.attempt for answer in answers if answer.ref == receipt.ref}


def _final_words(heard: Sequence[Heard], compensated_at: datetime | None) -> tuple[Heard, ...]:
    """The provider's final words; once an effect was undone, "failed" says nothing about the first time (rule 7)."""
    finals = [h for h in heard if h.receipt.claim in FINAL_CLAIMS and h.receipt.source in PROVIDERS_WORD]
    return tuple(h for h in finals if h.receipt.claim is Claim.SUCCEEDED or not _is_after(h.receipt, compensated_at))


def standing(finals: Sequence[Heard], *, several: bool) -> tuple[Heard, ...]:
    """Those that were not answered before a final read-back was asked, which replaces them (rule 2).

    `several`: there was more than one attempt, and so perhaps more than one job.
    """
    looks = [h.receipt for h in finals if h.receipt.source is Source.READ_BACK]
    return tuple(h for h in finals if not any(_replaces(look, h.receipt, several) for look in looks))


def _replaces(look: ReceiptFact, word: ReceiptFact, several: bool) -> bool:
    """It replaces only what was said of the same job: the one that it was asked about, or that it names of several."""
    names_one = look.attempt is not None or (several and bool(look.ref))
    return word.seen_at < look.asked_at and not (names_one and word.ref not in ("", look.ref))


def _is_after(receipt: ReceiptFact, compensated_at: datetime | None) -> bool:
    """Answered then, and so perhaps of what was undone by then, whenever it was asked."""
    return compensated_at is not None and receipt.seen_at >= compensated_at


def answers_a_send(receipt: ReceiptFact) -> bool:
    """Whether the provider's own answer to one attempt, and more than that nothing came."""
    answered = receipt.claim in POSITIVE or receipt.claim is Claim.REFUSED
    return answered and receipt.source is Source.PROVIDER and receipt.attempt is not None


def _is_sign_of_life(receipt: ReceiptFact) -> bool:
    return receipt.claim in SIGNS_OF_LIFE and receipt.source in PROVIDERS_WORD | WEAK


def _is_refused(receipt: ReceiptFact) -> bool:
    return receipt.claim is Claim.REFUSED and receipt.source is Source.PROVIDER


def _found_nothing(receipt: ReceiptFact) -> bool:
    return receipt.claim is Claim.NOT_FOUND and receipt.source is Source.READ_BACK and receipt.authoritative
