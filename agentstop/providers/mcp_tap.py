"""A tap on an MCP connection: the last look at what leaves, and the first at what comes, before the SDK drops it.

The SDK forgets a request when its caller stops waiting, and drops whatever is heard of it later; and it sends cancel
notifications of its own, which nobody has decided or recorded. Here the first are kept and the second held back.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agentstop.providers.header_secrets import without
from agentstop.providers.mcp_answers import error_answer, progress_answer, result_answer
from agentstop.providers.mcp_calls import Calls
from agentstop.states import Claim

logger = logging.getLogger(__name__)

Streams = AbstractAsyncContextManager[tuple[Any, Any]]

GIVE_UP = "notifications/cancelled"
LOOK_AGAIN = 0.005  # seconds until it is seen whether the way out is free


class Tap:
    """A transport of the SDK with a tap in both directions.

    `gated`: a call's pass is tested here, when the transport waits for the next message; otherwise below it.
    """

    def __init__(self, transport: Streams, calls: Calls, *, gated: bool, secrets: tuple[str, ...] = ()) -> None:
        self.transport, self.calls, self.gated = transport, calls, gated
        self.secrets = secrets  # a server may say them again: masked in what is kept
        self.ended = asyncio.Event()  # nothing comes any more
        self.granted: set[Any] = set()  # the wire ids of calls that somebody has decided to give up
        self.heard = 0  # messages
        self.tools_changed = False  # the server says so of its list

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self.transport.__aenter__()
        return _Incoming(self, read), _Outgoing(self, write)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self.transport.__aexit__(kind, error, trace)
        finally:
            self.ended.set()

    def masked(self, message: Any) -> Any:
        """The same message without the logins that this side has sent; so no error of the SDK can tell them either."""
        if not self.secrets:
            return message
        if isinstance(message, JSONRPCResponse):
            return message.model_copy(update={"result": without(message.result, self.secrets)})
        if isinstance(message, JSONRPCError):
            said = without(message.error.model_dump(mode="json"), self.secrets)
            return message.model_copy(update={"error": ErrorData.model_validate(said)})
        return message.model_copy(update={"params": without(message.params, self.secrets)})

    def hear(self, message: Any) -> None:
        """Sort what has come; it goes on to the SDK in any case."""
        self.heard += 1
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._answer(message)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/progress":
            call = self.calls.open((message.params or {}).get("progressToken"))
            if call is not None:
                call.progressed(progress_answer(message.params or {}))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/tools/list_changed":
            self.tools_changed = True

    def _answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        call = self.calls.answered(message.id)
        if call is None:
            return
        if isinstance(message, JSONRPCResponse):
            answer = result_answer(call.tool, message.result)
            if answer.claim is Claim.ACCEPTED and answer.ref:
                self.calls.began(answer.ref)
            call.settle(answer)
        else:
            call.settle(error_answer(message.error.model_dump(mode="json"), tool=call.tool))


class _Outgoing:
    def __init__(self, tap: Tap, write: Any) -> None:
        self.tap, self.write = tap, write
        self._turn = asyncio.Lock()

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCNotification) and message.method == GIVE_UP and not self._granted(message):
            return
        call = None
        if isinstance(message, JSONRPCRequest):
            call = self.tap.calls.name(message.id, (message.params or {}).get("_meta"))
        if call is None or not self.tap.gated:
            await self.write.send(item)
            return
        async with self._turn:
            await self._way_is_free()
            call.leave()
            await self.write.send(item)

    def _granted(self, message: JSONRPCNotification) -> bool:
        named = (message.params or {}).get("requestId")
        return named in self.tap.granted or self.tap.calls.open(named) is None

    async def _way_is_free(self) -> None:
        """Until the transport waits for a message: what is handed over then is written at once."""
        while not self.write.statistics().tasks_waiting_receive:
            if self.tap.ended.is_set():
                raise anyio.ClosedResourceError
            await asyncio.sleep(LOOK_AGAIN)

    async def aclose(self) -> None:
        await self.write.aclose()

    async def __aenter__(self) -> Self:
        await self.write.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return bool(await self.write.__aexit__(*error))


class _Incoming:
    def __init__(self, tap: Tap, read: Any) -> None:
        self.tap, self.read = tap, read

    @property
    def last_context(self) -> Any:
        return getattr(self.read, "last_context", None)

    async def receive(self) -> Any:
        try:
            item = await self.read.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self.tap.ended.set()
            raise
        if isinstance(item, SessionMessage):
            item.message = self.tap.masked(item.message)
            try:
                self.tap.hear(item.message)
            except Exception:
                logger.exception("a message of an MCP server could not be sorted", extra={"action": "mcp_unsorted"})
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self.read.aclose()

    async def __aenter__(self) -> Self:
        await self.read.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return bool(await self.read.__aexit__(*error))
