"""One check of a provider under way: calls of it, each watched, and the word of a ledger that knows what was done."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentstop.exceptions import PassExpired
from agentstop.providers.base import (
    Answer,
    CancelReply,
    Capability,
    Context,
    Provider,
    Submission,
)
from agentstop.states import SIGNS_OF_LIFE, Claim, Source

GUARD = 60.0  # seconds after which a call has hung

Args = Mapping[str, Any]
CANCEL_CLAIMS = frozenset({Claim.CANCELLED, Claim.REFUSED, Claim.FAILED, Claim.LOST, Claim.UNSENT})


class Broken(AssertionError):
    """The provider does not keep the contract; the text says in what."""


class NotTried(Exception):
    """The subject does not offer what this check needs; the text says what that is."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: how to make the provider, one action of it, and the ledger that knows what was really done.

    The other arguments are for what the action can be made to do; leave out what it cannot.
    """

    provider: Callable[[], Provider]  # a new one for each check
    action: str
    effects: Callable[[str], int]  # how many effects with this idempotency key were really made
    args: Args = field(default_factory=dict)
    settled: Callable[[str], object] = lambda key: None  # returns when nothing is under way for this key any more
    losing: Args | None = None  # the effect is made, and the answer is lost
    refused: Args | None = None  # the provider turns it down, and makes nothing
    lasting: Args | None = None  # it is accepted, and takes so long that it can be cancelled
    begun: Callable[[str], object] | None = None  # returns when `lasting` is under way, if it answers only when done
    hanging: Args | None = None  # there is no answer for minutes
    unreachable: Callable[[], Provider] | None = None  # one whose provider cannot be connected to
    secrets: Sequence[str] = ()  # what must stand in no answer
    name_of_key: Callable[[str], Args] = lambda key: {}  # more arguments, where the ledger knows the key only by them


@dataclass(frozen=True, slots=True)
class Going:
    """An operation that takes long: the send of it, and its reference where that is known."""

    sending: asyncio.Future[Answer]
    ref: str


class Trial:
    """One check of one subject: calls of the provider, each watched, and the ledger's word."""

    def __init__(self, subject: Subject, provider: Provider) -> None:
        self.subject, self.provider = subject, provider
        self.key = str(uuid.uuid4())
        self.asked = 0  # how often the check before the write was called

    @property
    def capability(self) -> Capability:
        return self.provider.capability(self.subject.action)

    def submission(self, args: Args | None = None, *, key: str = "", ref: str = "", stored: bool = False) -> Submission:
        """As the product makes it; of a stored operation the arguments are not kept."""
        key = key or self.key
        given = {**(self.subject.args if args is None else args), **self.subject.name_of_key(key)}
        return Submission(1, self.subject.action, {} if stored else given, key, ref=ref)

    def context(self, deadline: float = GUARD) -> Context:
        return Context(before_write=self._before_write, deadline=deadline)

    def _before_write(self) -> None:
        self.asked += 1

    async def submit(self, args: Args | None = None, *, key: str = "", deadline: float = GUARD) -> Answer:
        """One send; what it raises counts as lost, as in the product."""
        try:
            given = await within(self.provider.submit(self.submission(args, key=key), self.context(deadline)))
        except Broken:
            raise
        except PassExpired:
            raise Broken("raised PassExpired although the pass was good") from None
        except Exception as error:
            return Answer(Claim.LOST, Source.SENDER, body=str(error))
        return self._answer(given)

    async def look_up(self, *, key: str = "", ref: str = "") -> Answer | None:
        """Ask by key or reference alone; what it raises counts as no answer, as in the product."""
        try:
            found = await within(self.provider.look_up(self.submission(key=key, ref=ref, stored=True), deadline=GUARD))
        except Exception:
            return None
        return None if found is None else self._answer(found)

    async def cancel(self, ref: str) -> CancelReply:
        try:
            given = await within(self.provider.cancel(self.submission(ref=ref, stored=True), self.context()))
        except Exception as error:
            return CancelReply(Claim.LOST, body=str(error))
        if not isinstance(given, CancelReply):
            raise Broken(f"cancel() answered {given!r:.100}, which is no CancelReply")
        require(given.claim in CANCEL_CLAIMS, f"cancel() claims {given.claim!r} of the request")
        if given.answer is not None:
            self._answer(given.answer)
        return given

    async def lasting(self) -> Going:
        """An operation that goes on and can be cancelled."""
        if not self.capability.cancellable:
            raise NotTried("its record says that it cannot be cancelled")
        sending = asyncio.ensure_future(self.submit(needs(self.subject.lasting, "lasting")))
        if self.subject.begun is not None:
            await asyncio.to_thread(self.subject.begun, self.key)
            return Going(sending, sending.result().ref if sending.done() else "")
        answer = await sending
        require(answer.claim in SIGNS_OF_LIFE, f"what takes long was answered {answer.claim}: {answer.body:.200}")
        return Going(sending, answer.ref)

    async def effects(self, key: str = "") -> int:
        """What the ledger says once all has come to its end."""
        await asyncio.to_thread(self.subject.settled, key or self.key)
        return await asyncio.to_thread(self.subject.effects, key or self.key)

    def _answer(self, given: Any) -> Answer:
        require(isinstance(given, Answer), f"answered {given!r:.100}, which is no Answer")
        require(isinstance(given.claim, Claim) and isinstance(given.source, Source), f"claims {given.claim!r}")
        told = repr(given)
        require(not any(secret in told for secret in self.subject.secrets), "told a secret in its answer")
        return given  # type: ignore[no-any-return]


def require(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)


def needs(args: Args | None, what: str) -> Args:
    if args is None:
        raise NotTried(f"the subject offers no arguments for this: {what}")
    return args


async def within(call: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(GUARD):
            return await call
    except TimeoutError:
        raise Broken(f"did not end within {GUARD:g} s") from None
