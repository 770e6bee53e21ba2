"""A provider with a hidden history, and what was truthfully heard of it: does a label ever lie?

The provider honours the idempotency key, and does a failed or cancelled job again when it is asked again. Receipts are
late, lost, doubled and out of order, and each was true at the moment it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from agentstop.states import AttemptFact, OperationFacts, OperationState, ReceiptFact
from tests.folding.scenes import answer, at, attempt, facts, lost, push, read_back, receipt, seconds, unsent


class Job(NamedTuple):
    """What really happened at the provider."""

    start: float
    end: float
    how: str
    attempt: int  # that started it

    @property
    def ref(self) -> str:
        return str(self.start)


@dataclass
class History:
    """One operation: its attempts, the jobs they made, and all that was or will be heard."""

    attempts: list[AttemptFact] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    receipts: list[ReceiptFact] = field(default_factory=list)

    def facts_at(self, now: float) -> OperationFacts:
        attempts = [a for a in self.attempts if seconds(a.passed_at) <= now]
        return facts(attempts, [r for r in self.receipts if r.seen_at <= at(now)])

    @property
    def is_doubled(self) -> bool:
        """Two jobs of one key beside each other: no rule can know of both."""
        jobs = sorted(self.jobs)
        return any(jobs[0].end > job.start or jobs[0].how == "succeeded" for job in jobs[1:])


def random_history(random: Random) -> History:
    history = History()
    passed = 1.0
    for number in (1, 2):
        if number == 2 and random.random() < 0.4:
            break
        lease = passed + random.uniform(1, 3)
        history.attempts.append(attempt(number, passed, lease, lease + 2))
        _send(history, random, number, passed, lease)
        passed = lease + random.uniform(0, 4)  # a later attempt only after the old lease
    forgets = random.random() < 0.2
    for job in history.jobs:
        _push(history, random, job)
    for _ in range(random.choice([0, 1, 1, 2])):
        _look_up(history, random, forgets=forgets)
    if random.random() < 0.33:
        history.receipts.append(receipt("cancelled", random.choice(["ack", "intermediary"]), 3, random.uniform(3, 15)))
    return history


def _send(history: History, random: Random, number: int, passed: float, lease: float) -> None:
    fate = random.choice(["never", "refused", "arrives", "arrives", "arrives"])
    arrives = random.uniform(passed, lease + (1.9 if random.random() < 0.2 else 0))
    if fate == "never":
        if random.random() < 0.7:
            history.receipts.append(random.choice([unsent, lost])(random.uniform(passed, lease), number))
    elif fate == "refused":
        heard = random.random() < 0.7
        history.receipts.append(answer("refused", arrives + 0.1, number) if heard else lost(arrives + 0.1, number))
    else:
        _arrive(history, random, number, passed, arrives, lease)


def _arrive(history: History, random: Random, number: int, passed: float, arrives: float, lease: float) -> None:
    known = [job for job in history.jobs if job.start < arrives and (job.end > arrives or job.how == "succeeded")]
    if not known:
        how = random.choice(["succeeded", "succeeded", "failed", "cancelled"])
        known = [Job(arrives, arrives + random.uniform(0.1, 6), how, number)]
        history.jobs += known
    job, chance = known[0], random.random()
    if chance < 0.3:
        history.receipts.append(lost(random.uniform(arrives, lease + 2), number))
    elif chance < 0.6:
        history.receipts.append(answer("accepted", arrives + 0.1, number, ref=job.ref, asked=passed))
    elif job.how != "cancelled":
        answered = max(job.end, arrives) + random.uniform(0.1, 4)
        history.receipts.append(answer(job.how, answered, number, ref=job.ref, asked=passed))


def _push(history: History, random: Random, job: Job) -> None:
    if random.random() < 0.4:
        history.receipts.append(push(job.how, job.end + random.uniform(0.1, 6), ref=job.ref))
    if random.random() < 0.2:
        history.receipts.append(receipt("progress", "provider", job.start, job.start + random.uniform(0.1, 3)))


def _look_up(history: History, random: Random, *, forgets: bool) -> None:
    asked = random.uniform(1, 18)
    seen = asked + random.uniform(0.1, 2)
    looked = random.uniform(asked, seen)
    known = [job for job in history.jobs if job.start <= looked and not (forgets and job.end + 3 < looked)]
    if not known:
        history.receipts.append(read_back("not_found", asked, seen, authoritative=not forgets))
        return
    job = max(known)
    history.receipts.append(read_back(job.how if job.end <= looked else "running", asked, seen, ref=job.ref))


def lie(state: OperationState, history: History, now: float) -> str:
    """Why this label is false of the hidden history at this moment; empty if it is true."""
    made = [job for job in history.jobs if job.start <= now]
    passed = {a.number for a in history.attempts if seconds(a.passed_at) <= now}
    coming = any(job.start > now and job.attempt in passed for job in history.jobs)
    ended = {job.how for job in made if job.end <= now}
    active = any(job.end > now for job in made)
    if state is OperationState.NOT_SENT and (made or coming):
        return "not sent, but it was or will be made"
    if state in (OperationState.FAILED, OperationState.CANCELLED) and (active or coming or "succeeded" in ended):
        return f"{state}, but it runs, has succeeded or comes"
    if state in (OperationState.SUCCEEDED, OperationState.CANCELLED) and state not in ended:
        return f"{state}, but it was not"
    return ""
