"""The contract with outside systems: frozen values in and out, no ORM, no decision about states.

A provider says what it heard; what that means is folded elsewhere. Every call has a deadline in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from agentstop.states import Claim, Source


class SubmitIdempotency(StrEnum):
    """What a second submit with the same idempotency key does."""

    KEY = "key"  # the provider honours the key: at most one effect
    NATURAL = "natural"  # the request itself names the effect: the same effect again
    NONE = "none"  # a second effect


NATURAL_LIFE = timedelta(days=36500)  # a request that names its effect does so for good


class LookUp(StrEnum):
    """How the provider can be asked what became of an operation."""

    BY_KEY = "by_key"
    BY_CLIENT_REF = "by_client_ref"  # by a name that we chose and sent along: made of the key
    BY_REF = "by_ref"  # only once the provider's reference is known
    SEARCH = "search"  # it can only be listed or searched, for what was sent along with it
    NONE = "none"

    def possible(self, ref: str) -> bool:
        """Whether it can be asked now; `ref` is the provider's reference, empty while it is not known."""
        return self is not LookUp.NONE and (self is not LookUp.BY_REF or bool(ref))


class Cancel(StrEnum):
    """Until when the provider takes a cancel request."""

    NEVER = "never"
    UNTIL_STARTED = "until_started"
    BEST_EFFORT = "best_effort"


class Stage(StrEnum):
    """How far an operation is at its provider, as far as cancelling it goes."""

    UNANSWERED = "unanswered"  # sent, and its reference is not known yet
    ACCEPTED = "accepted"  # taken, not started
    STARTED = "started"


class Disconnect(StrEnum):
    """What a provider makes of a connection that is lost before it has answered."""

    UNKNOWN = "unknown"  # it is not said: nobody counts on either
    GOES_ON = "goes_on"  # it goes on as if nothing had happened
    CANCELS = "cancels"  # it takes it for a request to cancel, which proves nothing about the effect


class Extent(StrEnum):
    """How much of an effect a compensation takes back."""

    PARTIAL = "partial"  # something of it stays, as the consequences say
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Compensation:
    """How an effect that was made can be undone: by another action of the same provider, never by cancelling.

    That action is submitted as an operation of its own, with the arguments `original_ref` and `original_key`: the
    provider's reference and the idempotency key of what is undone.
    """

    action: str
    extent: Extent = Extent.FULL
    consequences: str = ""  # a sentence for the person who confirms it: what it does, and what it leaves


@dataclass(frozen=True, slots=True)
class Capability:
    """What one action of a provider can do about its effects. The defaults claim nothing."""

    submit: SubmitIdempotency = SubmitIdempotency.NONE
    key_life: timedelta = timedelta(0)  # how long the provider honours the key
    look_up: LookUp = LookUp.NONE
    authoritative: bool = False  # "not found" from a look-up proves that there is nothing
    settling: timedelta = timedelta(0)  # how long an accepted request may take to show in a look-up
    max_age: timedelta = timedelta(days=7)  # silence after which an accepted operation becomes unknown
    cancel: Cancel = Cancel.NEVER
    cancel_needs_ref: bool = True
    ack_is_final: bool = False  # an acknowledged cancel proves that the effect will not happen
    cancel_ends_answer: bool = False  # once it was asked to cancel, it answers no more, whatever becomes of the effect
    disconnect: Disconnect = Disconnect.UNKNOWN
    compensation: Compensation | None = None  # None: what was done cannot be undone here

    @property
    def resend_life(self) -> timedelta | None:
        """For how long from the first attempt sending again is known to be harmless; None where it is not."""
        if self.submit is SubmitIdempotency.NATURAL:
            return NATURAL_LIFE
        return self.key_life if self.submit is SubmitIdempotency.KEY and self.key_life else None

    @property
    def resendable(self) -> bool:
        """Sending again is known to be harmless, at least for some time."""
        return self.resend_life is not None

    @property
    def cancellable(self) -> bool:
        return self.cancel is not Cancel.NEVER

    def cancellable_at(self, stage: Stage) -> bool:
        """Whether a request to cancel may have an effect at this stage."""
        if stage is Stage.UNANSWERED:
            return self.cancellable and not self.cancel_needs_ref
        return self.cancellable if stage is Stage.ACCEPTED else self.cancel is Cancel.BEST_EFFORT

    def problems(self) -> Iterator[str]:
        """What the record contradicts itself in, each with what to do; nothing where all is well."""
        if self.key_life and self.submit is not SubmitIdempotency.KEY:
            yield "says how long a key is honoured, but submit is not key: set submit, or remove key_life"
        if self.authoritative and self.look_up is LookUp.NONE:
            yield "calls a look-up authoritative that it does not have: set look_up, or remove authoritative"
        if self.authoritative and self.look_up is LookUp.SEARCH and not self.settling:
            yield "calls a search authoritative at once: say in settling how long it lags, or remove authoritative"
        if self.cancel_ends_answer and not self.cancellable:
            yield "says what a cancel request ends, but cancel is never: set cancel, or remove cancel_ends_answer"
        if self.ack_is_final and not self.cancellable:
            yield "says what an acknowledged cancel proves, but cancel is never: set cancel, or remove ack_is_final"


@dataclass(frozen=True, slots=True)
class Submission:
    """One operation as the provider sees it."""

    operation: int
    action: str
    args: Mapping[str, Any]
    idempotency_key: str
    attempt: int = 1
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was heard about an operation. `body` is what the provider said, as text; `result` is for the agent."""

    claim: Claim
    source: Source = Source.PROVIDER
    ref: str = ""
    body: str = ""
    result: Any = None
    authoritative: bool = True
    retry_after: float | None = None  # seconds after which the provider wants to be asked again
    at: datetime | None = None  # the provider's own clock, where it told the moment of the effect
    progress: float | None = None  # from 0 to 1, where the provider told it
    cut: bool = False  # what was read is not the whole answer
    unread: bool = False  # it cannot be read in the form that it announces: what it says is for people only


@dataclass(frozen=True, slots=True)
class CancelReply:
    """What was heard of a cancel request.

    `claim` is about the request: cancelled (acknowledged), refused, failed (error of the provider), lost or unsent.
    `answer` is the provider's word about the effect, where its reply held one.
    """

    claim: Claim
    body: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """What has arrived by itself: whoever knows the address can send it, so its signature is checked first."""

    headers: Mapping[str, str]  # by name in lower case
    body: bytes  # as it arrived: a signature is about these bytes


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a signed webhook says of one operation, which it names by `key` or else by `answer.ref`.

    The claims are those of a provider that was not asked: accepted, running, succeeded, failed or cancelled.
    """

    answer: Answer
    key: str = ""  # the idempotency key, where the provider gives it back
    event: str = ""  # the provider's name for this message, the same however often it is delivered; empty: its bytes


BeforeWrite = Callable[[], None]
"""Called as the last thing before the first byte; raises `PassExpired` where nothing may leave."""


def _unheard(_: Answer) -> None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a submit or cancel is given besides: the check to make right before the write, and its time limit.

    `heard` takes what else is said of the operation than the returned answer: progress, a second answer, one that comes
    when the call has long ended. It may be called at any time on agentstop's loop, and never raises or waits.
    """

    before_write: BeforeWrite
    deadline: float  # seconds
    heard: Callable[[Answer], None] = field(default=_unheard)

    def progress(self, fraction: float) -> None:
        """The provider says how far it is, from 0 to 1."""
        self.heard(Answer(Claim.RUNNING, progress=fraction))


class Provider:
    """One configured, shared connection to an outside system.

    Methods are coroutines run on agentstop's own loop. They return what was heard and raise only `PassExpired`
    (from `context.before_write`); any other exception counts as a lost answer.

    `bound`: some operations can be asked about, or given up, only over the connection of the process that has sent
    them. `reaches` tells which; that process then follows them up itself, and others leave them alone.
    """

    bound: bool = False

    def reaches(self, submission: Submission) -> bool:
        """Whether this process can ask about this operation now, or ask to have it given up."""
        return True

    def capability(self, action: str) -> Capability:
        """What this action can do about its effects."""
        return Capability()

    def known_actions(self) -> tuple[str, ...]:
        """The actions that it can name, for the operators' list of connectors; without sending anything."""
        return ()

    async def submit(self, submission: Submission, context: Context) -> Answer:
        """Send it once."""
        raise NotImplementedError(f"{type(self).__name__} has no submit(): pass send= to run.call()")

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        """Ask the provider to give the operation up. Called only where the capability says that it can."""
        raise NotImplementedError(f"{type(self).__name__} cannot cancel")

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        """Ask what became of it, without any effect. None: the provider could not be asked (try again later)."""
        raise NotImplementedError(f"{type(self).__name__} cannot look up")

    def webhook(self, webhook: Webhook) -> Sequence[Pushed]:
        """What a webhook says of operations, once its signature was checked; nothing where it is about none.

        Raises NotSigned where it is not proven to be the provider's, ValueError where it cannot be read. Called in the
        thread of the request: it asks nobody.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no webhooks")

    async def aclose(self) -> None:
        """Release sockets. Called when the process ends, never by a stop."""
        return None
