"""By which references a provider names the jobs of one operation, and which of these jobs are known to be over.

Pure. One key names one job, but a provider may have forgotten it, or honour none: then later attempts make others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from agentstop.folds.evidence import NO_EFFECT, POSITIVE, PROVIDERS_WORD, Evidence, Heard, answers_a_send, standing
from agentstop.states import SIGNS_OF_LIFE, Claim, Job, ReceiptFact, Source

__all__ = ["another_is_open", "is_doubled", "jobs_of", "open_ones", "the_one"]

_NAMES_NOTHING = frozenset({Claim.REFUSED, Claim.UNSENT, Claim.ENDED, Claim.NOT_FOUND})


def jobs_of(evidence: Evidence) -> tuple[Job, ...]:
    """The jobs that have come back with a reference, the newest first: by the last attempt that returned it."""
    named = _naming([h.receipt for h in evidence.heard if h.receipt.ref])
    if not named:
        return ()
    answers = [h.receipt for h in evidence.heard if answers_a_send(h.receipt)]
    jobs = [_job(ref, [r for r in named if r.ref == ref], answers, evidence) for ref in {r.ref for r in named}]
    return tuple(sorted(jobs, key=lambda job: _age(job, evidence), reverse=True))


def _naming(receipts: Sequence[ReceiptFact]) -> Sequence[ReceiptFact]:
    """Those whose references count: the provider's own, and hearsay only where there is nothing else."""
    own = [r for r in receipts if r.claim in POSITIVE and r.source in PROVIDERS_WORD]
    return own or [r for r in receipts if r.claim not in _NAMES_NOTHING]


def _job(ref: str, named: Sequence[ReceiptFact], answers: Sequence[ReceiptFact], evidence: Evidence) -> Job:
    attempts = frozenset(r.attempt for r in answers if r.ref == ref and r.attempt is not None)
    return Job(ref, attempts, min(r.seen_at for r in named), _said(ref, attempts, evidence))


def _age(job: Job, evidence: Evidence) -> tuple[datetime, bool, datetime, str]:
    """One that no attempt has returned may be of any that had passed when it was heard of."""
    passed = [
        a.passed_at
        for a in evidence.attempts
        if a.number in job.attempts or (not job.attempts and a.passed_at <= job.since)
    ]
    return max(passed, default=job.since), bool(job.attempts), job.since, job.ref


def _said(ref: str, attempts: frozenset[int], evidence: Evidence) -> Claim | None:
    """The final word about this job, if all that stand agree and it was not seen running since."""
    about = [h for h in evidence.finals if _is_about(h, ref, attempts)]
    words = [h.receipt for h in standing(about, several=len(evidence.attempts) > 1)]
    claims = {word.claim for word in words}
    if len(claims) != 1:
        return None
    last = max(word.seen_at for word in words)
    runs = any(_is_seen_running(h.receipt, ref) and h.receipt.asked_at > last for h in evidence.heard)
    return None if runs and Claim.SUCCEEDED not in claims else claims.pop()


def _is_about(word: Heard, ref: str, attempts: frozenset[int]) -> bool:
    """By the same reference; without one, the answer to an attempt that has returned it, or a denial of all of them."""
    receipt = word.receipt
    if receipt.ref or not attempts:
        return receipt.ref == ref
    own = receipt.attempt in attempts and answers_a_send(receipt)
    return own or (receipt.claim in NO_EFFECT and attempts <= word.about)


def _is_seen_running(receipt: ReceiptFact, ref: str) -> bool:
    return receipt.ref == ref and receipt.claim in SIGNS_OF_LIFE and receipt.source is Source.READ_BACK


def open_ones(jobs: Iterable[Job]) -> tuple[str, ...]:
    """The references of those that are not known to be over: they may still have an effect."""
    return tuple(job.ref for job in jobs if job.said is None)


def the_one(jobs: Sequence[Job]) -> str:
    """The reference that stands for the operation: of what was done, else of what may go on; else the newest."""
    done = [job.ref for job in jobs if job.said is Claim.SUCCEEDED]
    return next(iter([*done, *open_ones(jobs), *(job.ref for job in jobs)]), "")


def another_is_open(jobs: Sequence[Job]) -> bool:
    """Whether one job has had its effect, and another one may still have it."""
    return bool(open_ones(jobs)) and any(job.said is Claim.SUCCEEDED for job in jobs)


def is_doubled(jobs: Sequence[Job]) -> bool:
    """Whether one key came back with several references that are not known to have had no effect."""
    return sum(job.said not in NO_EFFECT for job in jobs) > 1
