"""The fold as its rules were first written down, with the faults that led to the present ones.

It is here so that the checks can be seen to find each fault: a check that passes this fold would check nothing.
"""

from __future__ import annotations

from datetime import datetime

from agentstop.states import FINAL_CLAIMS, SIGNS_OF_LIFE, Claim, OperationFacts, OperationState, ReceiptFact, Source

_FINAL_SOURCES = frozenset({Source.READ_BACK, Source.PROVIDER, Source.PERSON})


def literal_state(facts: OperationFacts, now: datetime) -> OperationState:
    """A final word decides for all attempts; refused and forgotten are nothing; a person ranks with the provider."""
    if not facts.attempts:
        return OperationState.NOT_SENT if facts.refused else OperationState.PREPARED
    finals = [r for r in facts.receipts if r.claim in FINAL_CLAIMS and r.source in _FINAL_SOURCES]
    if finals:
        return _by_finals(finals)
    if not any(r.claim in FINAL_CLAIMS | SIGNS_OF_LIFE for r in facts.receipts):
        silent = _without_a_word(facts, now)
        if silent is not None:
            return silent
    return _by_signs(facts, now)


def _by_finals(finals: list[ReceiptFact]) -> OperationState:
    if len({r.claim for r in finals}) == 1:
        return OperationState(finals[0].claim)
    deciding = [r for r in finals if r.source is Source.READ_BACK]
    deciding = [r for r in deciding if all(r.asked_at > o.asked_at for o in finals if o.claim is not r.claim)]
    claims = {r.claim for r in deciding}
    return OperationState(claims.pop()) if len(claims) == 1 else OperationState.UNKNOWN


def _without_a_word(facts: OperationFacts, now: datetime) -> OperationState | None:
    unsent = {r.attempt for r in facts.receipts if r.claim is Claim.UNSENT}
    if unsent >= {a.number for a in facts.attempts}:
        return OperationState.NOT_SENT
    settled_at = max(a.settled_at for a in facts.attempts)
    if any(r.claim is Claim.NOT_FOUND and r.authoritative and r.asked_at > settled_at for r in facts.receipts):
        return OperationState.NOT_SENT
    if not facts.receipts and any(a.lease_until > now for a in facts.attempts):
        return OperationState.SENDING
    return None


def _by_signs(facts: OperationFacts, now: datetime) -> OperationState:
    signs = [r.seen_at for r in facts.receipts if r.claim in SIGNS_OF_LIFE]
    if not signs:
        return OperationState.UNKNOWN
    max_age = max(a.max_age for a in facts.attempts)
    return OperationState.ACCEPTED if now - max(signs) <= max_age else OperationState.UNKNOWN
