"""What a server says on a stream over HTTP after its answer: the SDK closes the stream at the first and hears no more.

A second answer may contradict the first, so it is heard for a while, and kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio

from agentstop.providers.mcp_calls import Call

logger = logging.getLogger(__name__)

T = TypeVar("T")

LINGER = 5.0  # seconds for which a stream that has answered is still heard, unless the server ends it
LINGERING = 100  # such streams at once


class Answers:
    """The answers in a stream of events, as its bytes come; of the first only that there was one."""

    def __init__(self) -> None:
        self.count = 0
        self._line: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """The answers after the first that end in this chunk."""
        later = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._line.append(end)
            line = b"".join(self._line).rstrip(b"\r")
            self._line.clear()
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif not line:
                later += self._event()
        if rest:
            self._line.append(rest)
        return later

    def _event(self) -> list[dict[str, Any]]:
        data = b"\n".join(self._data)
        self._data.clear()
        if b'"result"' not in data and b'"error"' not in data:
            return []
        self.count += 1
        if self.count == 1:
            return []
        try:
            told = json.loads(data)
        except ValueError:
            return []
        return [told] if isinstance(told, dict) else []


async def unless_dropped(call: Call | None, coming: Awaitable[T]) -> T | None:
    """What comes, or None as soon as the call is dropped."""
    if call is None:
        return await coming
    with anyio.CancelScope() as scope:
        call.waiting = scope
        if call.dropped:
            scope.cancel()
        try:
            return await coming
        finally:
            call.waiting = None
    return None


class Listened:
    """A body of an HTTP response that ends where it breaks off or grows too large, rather than raise.

    `heard` is given the answers after the first. What is said once the SDK has closed it is heard too, by a task among
    `lingering`.
    """

    def __init__(
        self,
        inner: Any,
        cap: int,
        call: Call | None,
        heard: Callable[[dict[str, Any]], None] | None,
        lingering: set[asyncio.Task[None]],
    ) -> None:
        self.inner, self.cap, self.call, self.heard, self.lingering = inner, cap, call, heard, lingering
        self._chunks = aiter(inner)
        self._answers, self._read, self._over = Answers(), 0, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._next()) is not None:
            yield chunk

    async def _next(self) -> bytes | None:
        chunk: bytes | None
        try:
            chunk = await unless_dropped(self.call, anext(self._chunks))
        except Exception:
            chunk = None
        self._read += len(chunk or b"")
        if chunk is None or self._read > self.cap:
            self._over = True
            return None
        if self.heard is not None:
            for told in self._answers.feed(chunk):
                self._tell(told)
        return chunk

    def _tell(self, told: dict[str, Any]) -> None:
        try:
            if self.heard is not None:
                self.heard(told)
        except Exception:
            logger.exception("a second answer of an MCP server was not kept", extra={"action": "mcp_unsorted"})

    async def aclose(self) -> None:
        """Close it, or listen on for a moment where it has answered and the server has not ended it."""
        if self._over or not self._answers.count or len(self.lingering) >= LINGERING:
            await self.inner.aclose()
            return
        task = asyncio.create_task(self._linger())
        self.lingering.add(task)
        task.add_done_callback(self.lingering.discard)

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER):
                while await self._next() is not None:
                    pass
        except TimeoutError:
            pass
        finally:
            await self.inner.aclose()
