"""Tools that yield: each piece goes to the caller when it asks, and a stop at half keeps the half, marked partial."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from agentstop import calls
from agentstop.carry import Tool
from agentstop.dispatched import Dispatched
from agentstop.exceptions import AgentStopError
from agentstop.outcomes import Outcome
from agentstop.providers.base import Answer
from agentstop.request import Request
from agentstop.sending import sender
from agentstop.states import Claim, Source
from agentstop.tools.asked import Wish, value_of
from agentstop.tools.handle import current_operation

R = TypeVar("R")

END = object()


class Channel:
    """Between a tool that yields and its caller, on the sender's loop: a piece is made when it is asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wanted = asyncio.Semaphore(0)
        self._pieces: asyncio.Queue[Any] = asyncio.Queue()
        self._closed = False
        self.begun = False
        self.raised: BaseException | None = None

    def do(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def take(self) -> Any:
        """The next piece, or END."""
        self._wanted.release()
        return await self._pieces.get()

    async def wanted(self) -> bool:
        """Wait until the caller asks; False once nobody does any more."""
        await self._wanted.acquire()
        return not self._closed

    async def give(self, piece: Any) -> None:
        self._pieces.put_nowait(piece)

    def close(self, _: Any = None) -> None:
        """Nobody asks any more, or there is nothing to ask for."""
        try:
            self._loop.call_soon_threadsafe(self._close)
        except RuntimeError:  # the process is ending
            pass

    def _close(self) -> None:
        self._closed = True
        self._wanted.release()
        self._pieces.put_nowait(END)


def stream(wish: Wish, request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The pieces, for a caller in a thread."""
    if sender().is_here:
        raise AgentStopError(
            f"{wish.action} was read without await on agentstop's own loop. Make it an async generator."
        )
    channel = Channel(sender().loop)
    outcome = _begun(channel, wish, request, lambda op: _pump(channel, wish, op, args, kwargs))
    try:
        while (piece := channel.do(channel.take()).result()) is not END:
            yield piece
    finally:
        channel.close()
    yield from _rest(channel, outcome.result())


async def astream(wish: Wish, request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AsyncIterator[Any]:
    """The pieces, for a caller in a coroutine."""
    channel = Channel(sender().loop)

    async def pump(op: Dispatched) -> Any:
        return await _apump(channel, wish, op, args, kwargs)

    outcome = _begun(channel, wish, request, pump)
    try:
        while (piece := await asyncio.wrap_future(channel.do(channel.take()))) is not END:
            yield piece
    finally:
        channel.close()
    for piece in _rest(channel, await asyncio.wrap_future(outcome)):
        yield piece


def _begun(channel: Channel, wish: Wish, request: Request, pump: Tool) -> Future[Outcome | AgentStopError]:
    """The call is on its way; its end, whatever it is, ends the pieces."""

    async def call() -> Outcome | AgentStopError:
        try:
            return await calls.acall(request, wish.manner(pump))
        except AgentStopError as refusal:
            return refusal

    outcome = sender().start(call)
    outcome.add_done_callback(channel.close)
    return outcome


def _rest(channel: Channel, outcome: Outcome | AgentStopError) -> Iterator[Any]:
    """What is left to give: everything, where it was done before. Raises why it has ended before its end."""
    if isinstance(outcome, AgentStopError):
        raise outcome
    kept = value_of(outcome, channel.raised)
    if not channel.begun:
        yield from kept


def _pump(channel: Channel, wish: Wish, op: Dispatched, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The tool, in a thread; answers all pieces, or the half that there is."""
    channel.begun, streamed = True, list[Any]()
    current_operation.set(op)
    forget = op.stop_signal.on_set(channel.close)
    pieces = wish.function(*args, **kwargs)
    try:
        while channel.do(channel.wanted()).result():
            try:
                streamed.append(next(pieces))
            except StopIteration:
                return streamed
            channel.do(channel.give(streamed[-1]))
        pieces.close()
        return half(wish, streamed)
    except BaseException as error:
        channel.raised = error
        return half(wish, streamed, error)
    finally:
        forget()


async def _apump(channel: Channel, wish: Wish, op: Dispatched, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The tool, on the loop."""
    channel.begun, streamed = True, list[Any]()
    current_operation.set(op)
    forget = op.stop_signal.on_set(channel.close)
    pieces = wish.function(*args, **kwargs)
    try:
        while await channel.wanted():
            try:
                streamed.append(await anext(pieces))
            except StopAsyncIteration:
                return streamed
            await channel.give(streamed[-1])
        await pieces.aclose()
        return half(wish, streamed)
    except asyncio.CancelledError:  # by the stop where the tool allows that, or at its deadline
        return half(wish, streamed)
    except BaseException as error:
        channel.raised = error
        return half(wish, streamed, error)
    finally:
        forget()


def half(wish: Wish, streamed: list[Any], error: BaseException | None = None) -> Answer:
    """The receipt of a stream that has not come to its end: what there was of it, marked partial."""
    claim = Claim.ENDED if wish.on_stop == "cancel" and error is None else Claim.LOST
    kept: dict[str, Any] = {"partial": True, "streamed": streamed}
    if error is not None:
        kept["error"] = f"{type(error).__name__}: {error}"
    return Answer(claim, Source.SENDER, result=kept)
