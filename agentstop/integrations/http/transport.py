"""The gated transport: reads pass, writes are operations, and each further send asks again."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

from agentstop import calls
from agentstop.carry import Manner
from agentstop.exceptions import (
    AgentStopError,
    Finished,
    OutcomeUnknown,
    PassExpired,
    Paused,
    Stale,
    Stopped,
    Superseded,
)
from agentstop.integrations.http.answering import Seen, library_of, replayed, response
from agentstop.integrations.http.flight import EXTENSION, ORIGIN, Flight, Flights, bare, where
from agentstop.integrations.http.naming import READS, asked
from agentstop.integrations.http.scope import Scope, current
from agentstop.integrations.http.sending import Header, Sending, Trace, Users
from agentstop.outcomes import Outcome, any_value
from agentstop.sending import sender
from agentstop.states import Claim

THE_GATE_SAYS_WHY = (Stopped, Superseded, Finished, Paused, PassExpired)
UNCLEAR = frozenset({408, 409, 425, 429})


class AnswerUnusable(AgentStopError):
    """The effect is recorded, and its answer cannot be used: too long, or not kept. Do not send it again."""


class Gating:
    """What the gated transports for threads and for coroutines have in common."""

    def __init__(self, connector: str, library: Any, *, header: str, style: str, cap: int) -> None:
        if style not in ("bare", "quoted"):
            raise ValueError(f"idempotency_format is {style!r}: use bare or quoted.")
        if not cap > 0:
            raise ValueError(f"body_cap is {cap!r}: pass a number of bytes above 0.")
        self.connector, self.library = connector, library
        self.header = Header(header, style, cap)
        self.flights = Flights()

    def is_read(self, http: Any) -> bool:
        """What has no effect passes, after a stop too. What a redirect has made of a write tells others no secret."""
        if http.method.upper() not in READS:
            return False
        flight = http.extensions.get(EXTENSION)
        origin = flight.origin if flight is not None else http.extensions.get(ORIGIN, where(http))
        if where(http) != origin:
            bare(http)
        return True

    def flight(self, http: Any, scope: Scope) -> Flight:
        """The write that this request belongs to."""
        flight: Flight | None = http.extensions.get(EXTENSION)
        if flight is None:
            flight = self.flights.take(asked(http, scope, self.connector, self.header.name), where(http))
            http.extensions[EXTENSION] = flight
        return flight

    def sending(self, http: Any, flight: Flight, inner: Any) -> Sending:
        sending = Sending(inner, http, flight.asked, self.header, lost_before=flight.lost)
        if where(http) != flight.origin:
            sending.elsewhere = True
            bare(http)
        return sending

    def landed(self, flight: Flight, sending: Sending, outcome: Outcome) -> Any:
        """What the client gets; raises what it must not take for an answer."""
        flight.after(sending)
        self.flights.keep(flight)
        if outcome.refusal is not None:
            raise outcome.refusal
        if outcome.ignored:
            raise Stale(
                f"The run is over: operation {outcome.operation} was sent before, and its answer is kept as a receipt, "
                "not given to this run."
            )
        if sending.error is not None:
            raise sending.error
        if sending.seen is not None and not (sending.claim is Claim.SUCCEEDED and outcome.failed):
            return response(self.library, sending.seen)
        if sending.seen is None and outcome.accepted:
            return replayed(self.library, outcome.result)
        raise AnswerUnusable(f"Operation {outcome.operation}: {outcome.error}")

    def within(self, http: Any, scope: Scope) -> None:
        """One send within an operation: refused where one before it may have had an effect that must not be twice."""
        op = scope.op
        if op is None:
            raise AssertionError("asked only within an operation")
        capability = op.capability
        if where(http) == http.extensions.setdefault(ORIGIN, where(http)):
            self.header.put(http, op.idempotency_key, capability.submit)
        else:
            bare(http)
        if scope.lost == (http.method, str(http.url)) and not capability.resendable:
            error = OutcomeUnknown(
                f"Operation {op.id} may have had its effect: its answer was lost, and sending again is not known to be "
                "harmless. Nothing more was sent."
            )
            error.operation = op.id
            raise error

    def note(self, http: Any, scope: Scope, status: int | None, *, begun: bool) -> None:
        """Take notice of a send within an operation."""
        lost = status is None or status >= 500 or status in UNCLEAR
        scope.lost = (http.method, str(http.url)) if lost and begun else None


class Gated(Gating):
    """For clients that are used in threads."""

    def __init__(
        self,
        connector: str,
        inner: Any,
        *,
        idempotency_header: str = "Idempotency-Key",
        idempotency_format: str = "bare",
        body_cap: int = 1_000_000,
    ) -> None:
        super().__init__(
            connector, library_of(inner), header=idempotency_header, style=idempotency_format, cap=body_cap
        )
        self.inner = inner
        self._users = Users(inner.close)

    def handle_request(self, request: Any) -> Any:
        """Send it, if the gate lets it pass."""
        if self.is_read(request):
            return self.inner.handle_request(request)
        scope = current(request.method, request.url.host)
        if scope.op is not None:
            return self._within(request, scope)
        request.read()
        flight = self.flight(request, scope)
        sending = self.sending(request, flight, self.inner)
        sending.users = self._users
        return self.landed(flight, sending, _go(flight, sending))

    def _within(self, request: Any, scope: Scope) -> Any:
        self.within(request, scope)
        trace = Trace(request, self.inner, _check(scope))
        trace.sync()
        status = None
        try:
            found = self.inner.handle_request(request)
            status = found.status_code
            return found
        finally:
            trace.end()
            self.note(request, scope, status, begun=trace.begun)

    def close(self) -> None:
        """Close the connections of the transport inside, once what is being sent has its answer."""
        self._users.leave_when_free()


def _check(scope: Scope) -> Callable[[], None]:
    if scope.op is None:
        raise AssertionError("asked only within an operation")
    return scope.op.check


def _go(flight: Flight, sending: Sending) -> Outcome:
    manner = Manner(sending.send, any_value, "finish", follow=False)
    passed = flight.usable
    if passed is not None:
        try:
            return calls.resend(passed, manner)
        except THE_GATE_SAYS_WHY:
            pass  # and writes it down
    return calls.call(flight.asked, manner)


async def _ago(flight: Flight, sending: Sending) -> Outcome:
    manner = Manner(sending.asend, any_value, "finish", follow=False)
    passed = flight.usable
    if passed is not None:
        try:
            return await calls.aresend(passed, manner)
        except THE_GATE_SAYS_WHY:
            pass
    return await calls.acall(flight.asked, manner)


class AsyncGated(Gating):
    """For clients that are used in coroutines.

    Writes are sent on agentstop's own loop, so that their receipts survive what becomes of the caller; reads in the
    caller's. Connections belong to a loop: `make` makes a transport for each.
    """

    def __init__(
        self,
        connector: str,
        make: Callable[[], Any],
        *,
        idempotency_header: str = "Idempotency-Key",
        idempotency_format: str = "bare",
        body_cap: int = 1_000_000,
    ) -> None:
        super().__init__(
            connector, library_of(make()), header=idempotency_header, style=idempotency_format, cap=body_cap
        )
        self.make = make
        self._users = Users(self._close_theirs)
        self._inner: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def handle_async_request(self, request: Any) -> Any:
        """Send it, if the gate lets it pass."""
        if self.is_read(request):
            return await self._of(asyncio.get_running_loop()).handle_async_request(request)
        scope = current(request.method, request.url.host)
        if scope.op is not None:
            return await self._within(request, scope)
        await request.aread()
        flight = self.flight(request, scope)
        sending = self.sending(request, flight, self._of(sender().loop))
        sending.users = self._users
        return self.landed(flight, sending, await _ago(flight, sending))

    async def _within(self, request: Any, scope: Scope) -> Any:
        self.within(request, scope)
        inner = self._of(asyncio.get_running_loop())
        trace = Trace(request, inner, _check(scope))
        trace.asynchronous()
        status = None
        try:
            found = await inner.handle_async_request(request)
            status = found.status_code
            return found
        finally:
            trace.end()
            self.note(request, scope, status, begun=trace.begun)

    def _of(self, loop: asyncio.AbstractEventLoop) -> Any:
        found = self._inner.get(loop)
        if found is None:
            found = self._inner[loop] = self.make()
        return found

    async def aclose(self) -> None:
        """Close the connections of this loop, and of agentstop's once what is being sent there has its answer."""
        here = asyncio.get_running_loop()
        mine = self._inner.pop(here, None) if here is not sender().loop else None
        if mine is not None:
            await mine.aclose()
        self._users.leave_when_free()

    def _close_theirs(self) -> None:
        for loop, inner in list(self._inner.items()):
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(inner.aclose(), loop)
        self._inner.clear()


__all__ = ["AnswerUnusable", "AsyncGated", "Gated", "Seen"]
