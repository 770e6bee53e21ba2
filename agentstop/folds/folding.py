"""The folds: what the facts about one operation say at a moment, as pure functions of sets and times.

The rules are asked in turn and the first that fits decides; the order in which receipts arrived plays no part.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from agentstop.folds.cancellation import fold_cancellation, may_arrive_until
from agentstop.folds.evidence import (
    POSITIVE,
    PROVIDERS_WORD,
    WEAK,
    Evidence,
    Heard,
    attempts_of,
    receipts_of,
    weigh,
)
from agentstop.folds.references import another_is_open, is_doubled, jobs_of, open_ones, the_one
from agentstop.states import (
    FINAL_CLAIMS,
    Claim,
    Folded,
    OperationFacts,
    OperationState,
    ReceiptFact,
    Source,
)

__all__ = ["fold"]


class _Verdict(NamedTuple):
    state: OperationState
    decided_by: tuple[ReceiptFact, ...] = ()
    due_at: datetime | None = None
    contradictory: bool = False


def fold(facts: OperationFacts, now: datetime) -> Folded:
    """The state that these facts give at `now`; the order in which they arrived plays no part."""
    evidence = weigh(facts)
    verdict, jobs = _judge(facts, evidence, now), jobs_of(evidence)
    another_open = verdict.state is OperationState.SUCCEEDED and another_is_open(jobs)
    asked = fold_cancellation(facts.cancel, verdict.state, refs=open_ones(jobs), now=now, another_open=another_open)
    due = [moment for moment in (verdict.due_at, asked.due_at) if moment is not None]
    return Folded(
        state=verdict.state,
        cancellation=asked.word,
        due_at=min(due, default=None),
        decided_by=verdict.decided_by,
        contradictory=verdict.contradictory,
        doubled=is_doubled(jobs),
        another_open=another_open,
        ref=the_one(jobs),
        jobs=jobs,
        cancel_of_jobs=asked.of_jobs,
        cancel_due=asked.due,
        cancel_tries=asked.tries,
        cancel_lease_until=may_arrive_until(facts.cancel),
    )


def _judge(facts: OperationFacts, evidence: Evidence, now: datetime) -> _Verdict:
    if not facts.attempts:
        return _Verdict(OperationState.NOT_SENT if facts.refused else OperationState.PREPARED)
    verdict = (
        _if_succeeded(evidence)
        or _if_without_effect(evidence)
        or _if_alive(evidence, now)
        or _if_reported(evidence)
        or _if_closed(evidence)
        or _if_open(evidence, now)
    )
    return _by_person(evidence, verdict) or verdict


def _if_succeeded(evidence: Evidence) -> _Verdict | None:
    """Rule 3: succeeded, unless every attempt that it can come from is said to have had no effect."""
    done = [h for h in evidence.words if h.receipt.claim is Claim.SUCCEEDED]
    if not done:
        return None
    if all(evidence.reach(h) <= evidence.no_effect for h in done):
        return _Verdict(OperationState.UNKNOWN, receipts_of(evidence.words), contradictory=True)
    return _Verdict(OperationState.SUCCEEDED, _saying(evidence, Claim.SUCCEEDED))


def _if_without_effect(evidence: Evidence) -> _Verdict | None:
    """Rule 4: failed or cancelled cover every attempt, and nothing says otherwise."""
    if evidence.no_effect != evidence.everyone:
        return None
    failed = attempts_of(h for h in evidence.words if h.receipt.claim is Claim.FAILED)
    cancelled = attempts_of(h for h in evidence.words if h.receipt.claim is Claim.CANCELLED)
    last_word = max(h.receipt.seen_at for h in evidence.words)
    alive = [h for h in evidence.signs if h.receipt.source is Source.READ_BACK and h.receipt.asked_at > last_word]
    if alive or failed & cancelled:
        return _Verdict(OperationState.UNKNOWN, receipts_of([*evidence.words, *alive]), contradictory=True)
    if cancelled:
        return _Verdict(OperationState.CANCELLED, _saying(evidence, Claim.CANCELLED))
    return _Verdict(OperationState.FAILED, _saying(evidence, Claim.FAILED))


def _saying(evidence: Evidence, claim: Claim) -> tuple[ReceiptFact, ...]:
    """All final words that say so, with those that a later read-back only confirmed: they tell since when."""
    return receipts_of(h for h in evidence.finals if h.receipt.claim is claim)


def _if_alive(evidence: Evidence, now: datetime) -> _Verdict | None:
    """Rule 5: a sign of life, until the provider forgot, an intermediary called it over or the maximum age passed."""
    signs = [h for h in evidence.signs if _may_go_on(h, evidence)]
    if not signs:
        return None
    last = max(h.receipt.seen_at for h in signs)
    latest = [h for h in signs if h.receipt.seen_at == last]
    over = [h for h in _reports(evidence) if h.receipt.seen_at >= last]
    over += [h for h in evidence.absences if h.receipt.asked_at > last]
    until = last + max(_max_age(h, evidence) for h in latest)
    if over or now >= until:
        return _Verdict(OperationState.UNKNOWN, receipts_of([*latest, *over]))
    return _Verdict(OperationState.ACCEPTED, receipts_of(latest), due_at=until)


def _may_go_on(sign: Heard, evidence: Evidence) -> bool:
    beaten = evidence.no_effect | evidence.refused if sign.receipt.source in WEAK else evidence.no_effect
    return not evidence.reach(sign) <= beaten


def _max_age(sign: Heard, evidence: Evidence) -> timedelta:
    return max(attempt.max_age for attempt in evidence.attempts if attempt.number in evidence.reach(sign))


def _reports(evidence: Evidence) -> list[Heard]:
    """Final words of an intermediary, where the provider has not closed every attempt itself."""
    if evidence.everyone <= evidence.no_effect | evidence.refused:
        return []
    return [h for h in evidence.heard if h.receipt.source is Source.INTERMEDIARY and h.receipt.claim in FINAL_CLAIMS]


def _if_reported(evidence: Evidence) -> _Verdict | None:
    """Rule 5, end: a final word of an intermediary alone settles nothing, and a denial adds nothing to proofs."""
    reports = _reports(evidence)
    if evidence.everyone <= evidence.closed:
        reports = [h for h in reports if h.receipt.claim is Claim.SUCCEEDED]
    return _Verdict(OperationState.UNKNOWN, receipts_of(reports)) if reports else None


def _if_closed(evidence: Evidence) -> _Verdict | None:
    """Rule 6: every attempt is closed, each by its own proof."""
    if evidence.closed != evidence.everyone:
        return None
    words = [h for h in evidence.words if h.about]
    positive = [h for h in evidence.heard if h.receipt.claim in POSITIVE and h.receipt.source in PROVIDERS_WORD]
    if evidence.refused or any(h.receipt.claim is Claim.FAILED for h in words):
        state = OperationState.FAILED
    elif words:
        state = OperationState.CANCELLED
    else:
        state = OperationState.UNKNOWN if positive else OperationState.NOT_SENT
    return _Verdict(state, receipts_of([*words, *evidence.proofs]))


def _if_open(evidence: Evidence, now: datetime) -> _Verdict:
    """Rule 6, end: an attempt is being sent, or nobody knows what became of it."""
    lost = [h for h in evidence.heard if h.receipt.claim is Claim.LOST]
    over = evidence.closed | attempts_of(lost)
    until = max((a.lease_until for a in evidence.attempts if a.number not in over), default=now)
    if until > now:
        return _Verdict(OperationState.SENDING, due_at=until)
    return _Verdict(OperationState.UNKNOWN, receipts_of(lost))


def _by_person(evidence: Evidence, verdict: _Verdict) -> _Verdict | None:
    """Rule 8: a person's last word, where the evidence settles nothing and the provider did not differ since."""
    if verdict.state not in (OperationState.UNKNOWN, OperationState.ACCEPTED):
        return None
    settled = [h for h in evidence.heard if h.receipt.source is Source.PERSON and h.receipt.claim in FINAL_CLAIMS]
    last = max((h.receipt.seen_at for h in settled), default=None)
    said = [h for h in settled if h.receipt.seen_at == last]
    claims = {h.receipt.claim for h in said}
    if last is None or len(claims) > 1 or attempts_of(said) != evidence.everyone:
        return None
    provider = [h.receipt for h in [*evidence.finals, *evidence.signs] if h.receipt.source in PROVIDERS_WORD]
    if any(receipt.seen_at > last and receipt.claim not in claims for receipt in provider):
        return None
    return _Verdict(OperationState(claims.pop()), receipts_of(said), contradictory=verdict.contradictory)
