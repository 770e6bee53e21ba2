"""The vocabulary of states and facts. What facts say is folded in `agentstop.folds.folding`.

Times are aware datetimes of the database's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class TaskState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


class RunState(StrEnum):
    LIVE = "live"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"


class OperationState(StrEnum):
    PREPARED = "prepared"  # listed, the gate was not reached
    NOT_SENT = "not_sent"  # proven: no attempt had an effect, and none is under way
    SENDING = "sending"  # an attempt holds a live lease and was not heard of
    ACCEPTED = "accepted"  # the provider gave a sign of life
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


FINAL_STATES = frozenset({OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED})
OPEN_STATES = frozenset(
    {OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN}
)  # may have its effect


class Cancellation(StrEnum):
    NONE = "none"  # nobody asked
    WAITING = "waiting"  # the provider's reference is needed and not known yet
    REQUESTED = "requested"  # due to be sent, or to be sent again
    SENT = "sent"  # a request left, or may have left; no answer to it
    ACKNOWLEDGED = "acknowledged"  # the provider took note; the effect may still happen
    CONFIRMED = "confirmed"  # the operation is cancelled
    REFUSED = "refused"  # the provider said no
    UNDELIVERABLE = "undeliverable"  # given up at the deadline
    UNSUPPORTED = "unsupported"  # this provider cannot cancel it
    MOOT = "moot"  # there is nothing (any more) to cancel


OPEN_CANCELLATIONS = frozenset(
    {Cancellation.WAITING, Cancellation.REQUESTED, Cancellation.SENT, Cancellation.ACKNOWLEDGED}
)


class Claim(StrEnum):
    UNSENT = "unsent"  # no byte left: no connection was made, or the pass was void
    ENDED = "ended"  # the try ended for the stop, and its tool declares that this has no effect
    LOST = "lost"  # sent or perhaps sent, no usable answer
    REFUSED = "refused"  # the provider turned the request down (4xx)
    ACCEPTED = "accepted"
    RUNNING = "running"
    PROGRESS = "progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NOT_FOUND = "not_found"


class Source(StrEnum):
    READ_BACK = "read_back"  # the provider, asked by a look-up
    PROVIDER = "provider"  # the provider, in answer to a send, or by a push
    PERSON = "person"
    INTERMEDIARY = "intermediary"  # a task server or proxy speaking about the provider
    ACK = "ack"  # an acknowledgement of a cancel request
    SENDER = "sender"  # our own sending code


class Verb(StrEnum):
    """What an attempt tries to do."""

    SUBMIT = "submit"
    CANCEL = "cancel"


FINAL_CLAIMS = frozenset({Claim.SUCCEEDED, Claim.FAILED, Claim.CANCELLED})
SIGNS_OF_LIFE = frozenset({Claim.ACCEPTED, Claim.RUNNING, Claim.PROGRESS})


@dataclass(frozen=True, slots=True)
class AttemptFact:
    """One submit attempt that passed the gate."""

    number: int
    passed_at: datetime
    lease_until: datetime
    settling: timedelta  # after the lease, until which the provider may still surface the effect
    max_age: timedelta  # silence after a sign of life that turns accepted into unknown

    @property
    def settled_at(self) -> datetime:
        return self.lease_until + self.settling


@dataclass(frozen=True, slots=True)
class ReceiptFact:
    """One piece of evidence about an operation's effect.

    `attempt` is the number of the submit that it answers; of a look-up by a reference, the last that it can tell of.
    """

    claim: Claim
    source: Source
    asked_at: datetime
    seen_at: datetime
    attempt: int | None = None
    ref: str = ""
    authoritative: bool = True
    id: int = 0
    provider_at: datetime | None = None  # the provider's own clock, where it told the moment of the effect


@dataclass(frozen=True, slots=True)
class CancelTry:
    """One cancel request that left or may have left."""

    number: int
    lease_until: datetime
    ref: str = ""  # of the job that it named; empty: it named the key alone


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What became of a cancel request: unsent, lost, refused, failed (an error there) or cancelled (acknowledged)."""

    claim: Claim
    attempt: int


@dataclass(frozen=True, slots=True)
class CancelFacts:
    """Everything known about cancelling one operation. `asked_at` is None while nobody asked."""

    asked_at: datetime | None = None
    until: datetime | None = None  # when the request is given up
    possible: bool = True  # the provider's capability when it was asked
    needs_ref: bool = False
    tries: tuple[CancelTry, ...] = ()
    answers: tuple[CancelAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """Everything an operation's state is folded from."""

    attempts: tuple[AttemptFact, ...] = ()
    receipts: tuple[ReceiptFact, ...] = ()
    refused: bool = False  # the gate refused it at least once
    compensated_at: datetime | None = None  # when a compensation was first sent
    cancel: CancelFacts = CancelFacts()


@dataclass(frozen=True, slots=True)
class Job:
    """What the provider made of one or more attempts, by the reference that it gives it."""

    ref: str
    attempts: frozenset[int]  # that returned it; none where it was heard of otherwise
    since: datetime  # when it was first heard of
    said: Claim | None  # succeeded, failed or cancelled; None: it is not known to be over


@dataclass(frozen=True, slots=True)
class Folded:
    """What the facts say at `now`, and when time alone will make them say something else."""

    state: OperationState
    cancellation: Cancellation
    due_at: datetime | None
    decided_by: tuple[ReceiptFact, ...] = ()
    contradictory: bool = False  # final words exclude each other
    doubled: bool = False  # different references came back for one key: perhaps done twice
    another_open: bool = False  # it has succeeded, and another job of it may still have its effect
    ref: str = ""  # the reference that stands for it: of what was done, else of what may go on
    jobs: tuple[Job, ...] = ()  # the newest first
    cancel_of_jobs: tuple[tuple[str, Cancellation], ...] = ()  # of each that may go on, once cancelling was asked for
    cancel_due: tuple[str, ...] = ()  # the jobs to be asked to be given up now, "" for the key alone
    cancel_tries: int = 0  # how often the least tried of those that wait for it was asked
    cancel_lease_until: datetime | None = None  # until when a request to cancel may still arrive; None: all answered
