"""One send of a gated write: the pass is asked when the first byte is about to leave, and the response is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agentstop import request as requests
from agentstop.dispatched import Dispatched
from agentstop.exceptions import PassExpired
from agentstop.integrations.http.answering import Seen, answer_of, no_answer
from agentstop.integrations.http.naming import quoted
from agentstop.passes import Pass
from agentstop.providers.base import Answer, SubmitIdempotency
from agentstop.providers.header_secrets import secrets_of
from agentstop.providers.http_exchange import WRITE_BEGINS
from agentstop.states import Claim, Source

TRACED = frozenset({"HTTPTransport", "AsyncHTTPTransport"})
TIMEOUTS = ("connect", "read", "write", "pool")


class Trace:
    """Hears from the connection when the first byte is about to leave, and asks whether it may.

    A transport of another kind than httpx's own does not tell: then it is asked before the transport is called.
    """

    def __init__(self, request: Any, inner: Any, check: Callable[[], None]) -> None:
        self.begun = False
        self._check = check
        self._request, self._before = request, request.extensions.get("trace")
        if not any(kind.__name__ in TRACED for kind in type(inner).__mro__):
            self._hear(WRITE_BEGINS)

    def _hear(self, event: str) -> None:
        if event.endswith(WRITE_BEGINS):
            self._check()
            self.begun = True

    def sync(self) -> None:
        before = self._before

        def trace(event: str, info: Any) -> None:
            if before is not None:
                before(event, info)
            self._hear(event)

        self._request.extensions["trace"] = trace

    def asynchronous(self) -> None:
        before = self._before

        async def trace(event: str, info: Any) -> None:
            if before is not None:
                await before(event, info)
            self._hear(event)

        self._request.extensions["trace"] = trace

    def end(self) -> None:
        """A redirect takes the extensions along: it must not find this trace there."""
        if self._before is None:
            self._request.extensions.pop("trace", None)
        else:
            self._request.extensions["trace"] = self._before


@dataclass(frozen=True, slots=True)
class Header:
    """How a provider takes the idempotency key, and how much of an answer is read."""

    name: str
    style: str  # "bare", or "quoted": as the string of a structured field
    cap: int  # bytes

    def put(self, request: Any, key: str, submit: SubmitIdempotency) -> None:
        """Send the operation's own key, where the provider honours it; otherwise what the client has set stays."""
        if submit is SubmitIdempotency.KEY:
            request.headers[self.name] = quoted(key) if self.style == "quoted" else key


class Users:
    """Who is sending by a transport: it is closed when nobody is any more, since answers are receipts."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close, self._lock = close, threading.Lock()
        self._count, self._leaving = 0, False

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            over = self._leaving and not self._count
        if over:
            self._close()

    def leave_when_free(self) -> None:
        with self._lock:
            self._leaving = True
            over = not self._count
        if over:
            self._close()


class Sending:
    """A tool for the gate that sends one request by a transport, in a thread or on the loop."""

    def __init__(self, inner: Any, request: Any, asked: requests.Request, header: Header, *, lost_before: bool) -> None:
        self.inner, self.request, self.asked, self.header = inner, request, asked, header
        self._lost_before = lost_before
        self.users = Users(lambda: None)
        self.elsewhere = False  # a redirect leads to another host, which gets neither key nor login
        self.passed: Pass | None = None
        self.seen: Seen | None = None
        self.error: Exception | None = None
        self.claim: Claim | None = None

    def send(self, op: Dispatched) -> Answer:
        """Send it in this thread."""
        self._begin(op)
        trace = Trace(self.request, self.inner, op.check)
        trace.sync()
        try:
            with self.users:
                self._exchange(op)
        except PassExpired:
            raise
        except Exception as error:
            return self._nothing(error, begun=trace.begun)
        finally:
            trace.end()
        return self._told()

    async def asend(self, op: Dispatched) -> Answer:
        """Send it on this loop."""
        self._begin(op)
        trace = Trace(self.request, self.inner, op.check)
        trace.asynchronous()
        try:
            with self.users:
                await self._aexchange()
        except PassExpired:
            raise
        except Exception as error:
            return self._nothing(error, begun=trace.begun)
        finally:
            trace.end()
        return self._told()

    def _begin(self, op: Dispatched) -> None:
        self.passed = op.passed_on()
        if not self.elsewhere:
            self.header.put(self.request, op.idempotency_key, self.asked.capability.submit)
        left = op.seconds_left
        timeouts = self.request.extensions.get("timeout", {})
        self.request.extensions["timeout"] = {name: _shorter(timeouts.get(name), left) for name in TIMEOUTS}
        # A compressed body could not be stored as text, nor be counted before it is unpacked.
        self.request.headers["accept-encoding"] = "identity"

    def _exchange(self, op: Dispatched) -> None:
        response = self.inner.handle_request(self.request)
        try:
            self.seen = self._whole(response, *self._read(response, op))
        finally:
            response.close()

    async def _aexchange(self) -> None:
        response = await self.inner.handle_async_request(self.request)
        try:
            self.seen = self._whole(response, *await self._aread(response))
        finally:
            await response.aclose()

    def _read(self, response: Any, op: Dispatched) -> tuple[bytes, bool]:
        held = bytearray()
        for chunk in response.stream:
            if not op.seconds_left:
                raise TimeoutError("the deadline passed")
            if _full(held, chunk, self.header.cap):
                return bytes(held), True
        return bytes(held), False

    async def _aread(self, response: Any) -> tuple[bytes, bool]:
        held = bytearray()
        async for chunk in response.stream:
            if _full(held, chunk, self.header.cap):
                return bytes(held), True
        return bytes(held), False

    def _whole(self, response: Any, content: bytes, cut: bool) -> Seen:
        secrets = secrets_of(self.request.headers)
        return Seen(str(self.request.url), response.status_code, response.headers.multi_items(), content, cut, secrets)

    def _told(self) -> Answer:
        if self.seen is None:
            raise AssertionError("told before it was read")
        return self._weighed(answer_of(self.seen, self.asked.connector, self.asked.action))

    def _nothing(self, error: Exception, *, begun: bool) -> Answer:
        self.error = error
        return self._weighed(no_answer(error, begun=begun))

    def _weighed(self, answer: Answer) -> Answer:
        """What a further send comes to says nothing of an earlier one whose answer was lost, unless it was done."""
        if self._lost_before and answer.claim in (Claim.UNSENT, Claim.REFUSED, Claim.FAILED):
            answer = replace(answer, claim=Claim.LOST, source=Source.SENDER)
        self.claim = answer.claim
        return answer


def _shorter(seconds: float | None, left: float) -> float:
    return left if seconds is None else min(seconds, left)


def _full(held: bytearray, chunk: bytes, cap: int) -> bool:
    room = cap - len(held)
    held += chunk[:room]
    return len(chunk) > room
