"""The handle on an operation that has passed the gate: what a tool may know of it, and how it hands in receipts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agentstop import bodies, settle
from agentstop.passes import Pass
from agentstop.providers.base import Answer, Capability
from agentstop.sending import in_domain
from agentstop.settle import Admission, Heard, Settled
from agentstop.states import Claim, Source
from agentstop.stop_signal import StopSignal

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Accepted:
    """Returned by a tool whose provider took the request and has not done it yet."""

    ref: str = ""


class Dispatched:
    """One attempt under way. Receipts handed in here are kept whatever has become of the run."""

    def __init__(self, passed: Pass, signal: StopSignal) -> None:
        self._pass = passed
        self.stop_signal = signal
        self.last: Answer | None = None  # what was handed in last, other than progress

    @property
    def heard(self) -> bool:
        """Whether a receipt was handed in that says more than that it goes on."""
        return self.last is not None

    @property
    def id(self) -> int:
        return self._pass.operation

    @property
    def attempt(self) -> int:
        return self._pass.attempt

    @property
    def idempotency_key(self) -> str:
        """The same over all attempts of this operation: hand it to the provider."""
        return self._pass.idempotency_key

    @property
    def capability(self) -> Capability:
        """What its provider can do about this effect."""
        return self._pass.request.capability

    @property
    def seconds_left(self) -> float:
        return self._pass.left

    def check(self) -> None:
        """Call it right before the first byte of each try, and nowhere else: what it has let through counts as sent.

        Raises PassExpired where nothing may leave any more: proof that nothing was sent, if it is the first try.
        """
        self._pass.check()

    def require(self) -> None:
        """Raises PassExpired where nothing may leave any more; for code that has not begun yet."""
        self._pass.require()

    @property
    def let_through(self) -> bool:
        """Whether `check` has let something through: from then on it may have been sent."""
        return self._pass.lease.used

    def passed_on(self) -> Pass:
        """The pass for another process, without the arguments, which may be anything, and the signal, which is here."""
        return replace(self._pass, request=replace(self._pass.request, args={}), signal=None)

    def accepted(self, ref: str = "") -> Accepted:
        """The provider took the request; `ref` is its name for it. A tool may return what this returns."""
        self._record(Claim.ACCEPTED, ref=ref)
        return Accepted(ref)

    def succeeded(self, result: Any = None, ref: str = "") -> Settled:
        """The provider said that it is done; the answer tells whether the run could still admit the result."""
        admission = Admission(self._pass.request.run)
        body, whole = bodies.pair(result)
        return self._record(Claim.SUCCEEDED, body=body, result=whole, ref=ref, admission=admission)

    def failed(self, error: object = "") -> Settled:
        """The provider said that it has had no effect."""
        return self._record(Claim.FAILED, body=bodies.store(str(error)))

    def progress(self, fraction: float) -> Settled:
        """The provider reported how far it is, from 0 to 1."""
        return self._record(Claim.PROGRESS, body=bodies.store(float(fraction)))

    def unsent(self, reason: object = "") -> Settled:
        """No byte has left, proven: the connection was never made, or the tool had not begun."""
        return self._record(Claim.UNSENT, body=bodies.store(str(reason)), source=Source.SENDER)

    def lost(self, error: object = "") -> Settled:
        """Nothing is known: no answer, or none that proves anything."""
        return self._record(Claim.LOST, body=bodies.store(str(error)), source=Source.SENDER)

    async def aaccepted(self, ref: str = "") -> Accepted:
        return await self._aside(self.accepted, ref)

    async def asucceeded(self, result: Any = None, ref: str = "") -> Settled:
        return await self._aside(self.succeeded, result, ref)

    async def afailed(self, error: object = "") -> Settled:
        return await self._aside(self.failed, error)

    async def aprogress(self, fraction: float) -> Settled:
        return await self._aside(self.progress, fraction)

    def _record(
        self,
        claim: Claim,
        *,
        source: Source = Source.PROVIDER,
        ref: str = "",
        body: bodies.Body | None = None,
        result: bodies.Body | None = None,
        admission: Admission | None = None,
    ) -> Settled:
        return self.hand_in(
            Heard(claim, source, self._pass.passed_at, self._pass.attempt_id, ref=ref, body=body, result=result),
            admission,
        )

    def hand_in(self, heard: Heard, admission: Admission | None) -> Settled:
        settled = settle.record(self.id, [heard], admission=admission)
        self.keep_in_mind(heard)
        return settled

    def keep_in_mind(self, heard: Heard) -> None:
        if heard.claim is not Claim.PROGRESS:
            said = heard.result or heard.body
            self.last = Answer(heard.claim, heard.source, ref=heard.ref, result=said.value if said else None)

    async def _aside(self, function: Callable[..., R], *arguments: Any) -> R:
        return await in_domain(function, *arguments)
