"""The outside world: a provider with a ledger of its own, and a network that loses, delays and doubles.

It never contradicts itself: whatever it says was true when it looked. What happens is told by draws, so that a command
can be repeated.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from agentstop.providers.base import Cancel, Capability, Compensation, LookUp, SubmitIdempotency
from agentstop.states import FINAL_CLAIMS, Claim
from tests.soak.clock import Clock

CONNECTOR = "world"


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


# Time moves by whole hours, so what ends after a half one has ended or not, however long a step takes.
SETTLING = hours(2)
KEY_LIFE = hours(25)
UNDO = Capability(
    submit=SubmitIdempotency.KEY,
    key_life=KEY_LIFE,
    look_up=LookUp.BY_KEY,
    authoritative=True,
    settling=SETTLING,
    max_age=hours(48.5),
)
PROFILES: Mapping[str, Capability] = {
    "keyed": Capability(
        submit=SubmitIdempotency.KEY,
        key_life=KEY_LIFE,
        look_up=LookUp.BY_KEY,
        authoritative=True,
        settling=SETTLING,
        max_age=hours(48.5),
        cancel=Cancel.BEST_EFFORT,
        cancel_needs_ref=False,
        compensation=Compensation("keyed.undo"),
    ),
    "by_ref": Capability(
        look_up=LookUp.BY_REF,
        authoritative=True,
        settling=SETTLING,
        max_age=hours(48.5),
        cancel=Cancel.UNTIL_STARTED,
        ack_is_final=True,
        compensation=Compensation("by_ref.undo"),
    ),
    "search": Capability(look_up=LookUp.BY_KEY, authoritative=True, settling=SETTLING, max_age=hours(48.5)),
    "lagging": Capability(
        submit=SubmitIdempotency.KEY,
        key_life=KEY_LIFE,
        look_up=LookUp.BY_KEY,
        settling=SETTLING,
        max_age=hours(24.5),
        cancel=Cancel.BEST_EFFORT,
    ),
    "blind": Capability(max_age=hours(24.5)),
    "keyed.undo": UNDO,
    "by_ref.undo": UNDO,
}
ACTIONS = ["keyed", "keyed", "keyed", "lagging", "lagging", "by_ref", "by_ref", "search", "blind"]


class Dropped(ConnectionError):
    """The line was cut before an answer came."""


class Sent(NamedTuple):
    """One submit as its bytes say it. The number is that of the attempt."""

    operation: int
    number: int
    action: str
    key: str
    undoes: str = ""  # the idempotency key of what is to be undone


@dataclass(eq=False)
class Job:
    """What really happened at the provider."""

    sent: Sent
    ref: str
    shows_at: datetime  # from when on a look-up finds it
    state: str = "running"  # or a final claim
    started: bool = False
    undone: bool = False
    forgotten: bool = False
    undoes: Job | None = None

    @property
    def stands(self) -> bool:
        """It has its effect, or may still have it."""
        return self.state in ("running", "succeeded") and not self.undone


class Letter(NamedTuple):
    """What the provider has said and nobody has heard yet. A push answers no attempt."""

    sent: Sent
    claim: Claim
    ref: str
    answers: bool


@dataclass
class World:
    """The provider's ledger, what is on its way to it, and what is on its way back."""

    clock: Clock
    random: Random = field(default_factory=Random)
    jobs: list[Job] = field(default_factory=list)
    flights: list[Sent] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    calm: bool = False  # from here on everything is answered
    submits: int = 0  # as the provider counts them
    undone_reads_as: Claim = Claim.SUCCEEDED
    _first: dict[str, datetime] = field(default_factory=dict)
    _refs: Any = field(default_factory=lambda: itertools.count(1))
    _lock: Any = field(default_factory=threading.RLock)

    def chance(self, one_in: int) -> bool:
        return not self.calm and self.random.randrange(one_in) == 0

    # What is on its way

    def arrive(self, sent: Sent, settled_at: datetime) -> Letter:
        """The bytes are read: a job is made, or found by its key, or the request is refused."""
        with self._lock:
            self.flights.remove(sent)
            self.submits += 1
            target = self._target(sent)
            if self.chance(8) or (sent.undoes and target is None):
                letter = Letter(sent, Claim.REFUSED, "", True)
            else:
                job = self._honoured(sent) or self._make(sent, settled_at, target)
                if self.chance(3):
                    self.end(job, self.random.choice([Claim.SUCCEEDED, Claim.SUCCEEDED, Claim.FAILED]))
                letter = Letter(sent, Claim(job.state) if job.state in FINAL_CLAIMS else Claim.ACCEPTED, job.ref, True)
            self.letters.append(letter)
            return letter

    def _target(self, sent: Sent) -> Job | None:
        done = [job for job in self.jobs if job.sent.key == sent.undoes and job.state == "succeeded"]
        return next((job for job in done if not job.undone), None)

    def _honoured(self, sent: Sent) -> Job | None:
        """The job that this key names already; one that failed or was cancelled is done again."""
        first = self._first.get(sent.key)
        if PROFILES[sent.action].submit is not SubmitIdempotency.KEY or first is None:
            return None
        if first + PROFILES[sent.action].key_life <= self.clock.virtual():
            return None
        return next((job for job in self.of_key(sent.key) if job.state in ("running", "succeeded")), None)

    def _make(self, sent: Sent, settled_at: datetime, target: Job | None) -> Job:
        now = self.clock.virtual()
        self._first.setdefault(sent.key, now)
        shows_at = now + (max(settled_at - now, timedelta(0)) * self.random.choice([0, 0, 1]))
        if not PROFILES[sent.action].authoritative and not self.chance(3):
            shows_at = now + hours(1000)
        job = Job(sent, f"r{next(self._refs)}", shows_at, undoes=target)
        self.jobs.append(job)
        return job

    # What goes on at the provider

    def end(self, job: Job, how: Claim) -> None:
        with self._lock:
            if job.state != "running":
                return
            job.state = how
            if job.undoes is not None and how is Claim.SUCCEEDED:
                job.undoes.undone = True

    def push(self, job: Job) -> Letter:
        """A word of the provider's own, as things are now; it may be late."""
        with self._lock:
            running = self.random.choice([Claim.RUNNING, Claim.PROGRESS])
            claim = Claim(job.state) if job.state in FINAL_CLAIMS else running
            job.started = True
            letter = Letter(job.sent, claim, job.ref, False)
            self.letters.append(letter)
            return letter

    # What it answers

    def look_up(self, action: str, key: str, ref: str) -> tuple[Claim, str]:
        """What became of it, as far as this provider shows it now."""
        with self._lock:
            by_ref = PROFILES[action].look_up is LookUp.BY_REF
            known = [job for job in self.jobs if (job.ref == ref if by_ref else job.sent.key == key)]
            shown = [job for job in known if not job.forgotten and (self.calm or job.shows_at <= self.clock.virtual())]
            if not shown or (shown[-1].undone and self.undone_reads_as is Claim.NOT_FOUND):
                return Claim.NOT_FOUND, ref if by_ref else ""
            job = shown[-1]
            if job.undone:
                return self.undone_reads_as, job.ref
            if job.state == "running":
                job.started = True
                return Claim.RUNNING, job.ref
            return Claim(job.state), job.ref

    def cancel(self, action: str, key: str, ref: str) -> tuple[Claim, Claim | None, str]:
        """What is answered to the request, what is said about the effect beside it if anything, and its reference."""
        with self._lock:
            capability = PROFILES[action]
            found = [job for job in self.jobs if job.ref == ref or (not ref and job.sent.key == key)]
            if not found or self.chance(6):
                return Claim.FAILED, None, ""
            job = found[-1]
            late = job.started and capability.cancel is Cancel.UNTIL_STARTED
            if job.state != "running" or late or self.chance(4):
                told = Claim(job.state) if job.state in FINAL_CLAIMS and not job.undone and self.chance(2) else None
                return Claim.REFUSED, told, job.ref
            if capability.ack_is_final or not self.chance(2):
                self.end(job, Claim.CANCELLED)
            if self.chance(5):
                raise Dropped("the answer to the cancel request was dropped")
            told = Claim(job.state) if job.state in FINAL_CLAIMS and not self.chance(2) else None
            return Claim.CANCELLED, told, job.ref

    # What is true

    def of_key(self, key: str) -> list[Job]:
        with self._lock:
            return [job for job in self.jobs if job.sent.key == key]

    def coming(self, operation: int) -> bool:
        """Whether bytes are on their way."""
        with self._lock:
            return any(sent.operation == operation for sent in self.flights)
