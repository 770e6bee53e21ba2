"""Attempts that a process elsewhere sends: it asks the gate from afar, holds a pass, and hands in what it has heard.

The pass is committed before it is answered. Where that answer is lost, nobody holds it: the attempt is under way until
its lease is over, and of unknown outcome from then on. It is never given out a second time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core import signing

from agentstop import bodies, database, heartbeat, settle
from agentstop.carry import replayed
from agentstop.exceptions import BadToken
from agentstop.gate import open_gate
from agentstop.models import Attempt
from agentstop.outcomes import Outcome
from agentstop.passes import Pass
from agentstop.request import Request
from agentstop.settle import Admission, Heard, Settled
from agentstop.states import Claim, Source

SALT = "agentstop.pass"
OF_THE_SENDER = frozenset({Claim.UNSENT, Claim.LOST})


@dataclass(frozen=True, slots=True)
class Ticket:
    """A pass as another process holds it: `str()` is its signed form, which cannot be made up or moved."""

    task: int
    run: int
    operation: int
    attempt_id: int
    lease: float  # seconds
    deadline: float  # seconds

    def __str__(self) -> str:
        parts = [self.task, self.run, self.operation, self.attempt_id, self.lease, self.deadline]
        return signing.dumps(parts, salt=SALT)

    @classmethod
    def read(cls, text: str, *, operation: int | None = None) -> Ticket:
        """The pass in such a text; BadToken where it is none, or of another operation than the one expected."""
        try:
            found = cls(*signing.loads(text, salt=SALT))
        except (signing.BadSignature, TypeError, ValueError) as error:
            raise BadToken("This pass was altered or is malformed. Hand in the pass that the gate answered.") from error
        if operation is not None and found.operation != operation:
            raise BadToken(f"This pass belongs to another operation than {operation}. Nothing was stored.")
        return found


@dataclass(frozen=True, slots=True)
class Passed:
    """Leave to send once, for `ticket.lease` seconds from when the gate was asked, unless it is renewed."""

    operation: int
    attempt: int
    idempotency_key: str
    ticket: Ticket


def enter(request: Request) -> Passed | Outcome:
    """Ask the gate for a process elsewhere: an outcome where it has succeeded before. Raises what `open_gate` does."""
    found = open_gate(request)
    if isinstance(found, Pass):
        ticket = Ticket(
            request.task, request.run, found.operation, found.attempt_id, request.lease, float(request.deadline)
        )
        return Passed(found.operation, found.attempt, found.idempotency_key, ticket)
    return replayed(found.operation, request.run)


def renew(ticket: Ticket) -> bool:
    """Its process lives and still holds the pass: extend it by a whole lease.

    False where it is over, or that lease would outlast its deadline: then it is good for no longer than it was.
    """
    attempt = Attempt.objects.using(database.alias()).filter(pk=ticket.attempt_id).first()
    left = timedelta(seconds=ticket.deadline - ticket.lease)
    if attempt is None or database.now() > attempt.passed_at + left:
        return False
    return heartbeat.extend(ticket.operation, ticket.attempt_id, ticket.lease)


def hand_in(ticket: Ticket, claim: Claim, *, ref: str = "", said: Any = None) -> Settled:
    """Keep a receipt of the process that holds the pass, whatever has become of its run.

    `said`: the result of a success, else what was heard (of `progress`: a number from 0 to 1). A success is admitted if
    the run is live.
    """
    success = claim is Claim.SUCCEEDED
    stored, whole = bodies.pair(said) if success or said is not None else (None, None)
    heard = Heard(
        claim,
        Source.SENDER if claim in OF_THE_SENDER else Source.PROVIDER,
        _passed_at(ticket),
        ticket.attempt_id,
        ref=ref,
        body=stored,
        result=whole if success else None,
    )
    return settle.record(ticket.operation, [heard], admission=Admission(ticket.run) if success else None)


def _passed_at(ticket: Ticket) -> datetime:
    return Attempt.objects.using(database.alias()).get(pk=ticket.attempt_id).passed_at
