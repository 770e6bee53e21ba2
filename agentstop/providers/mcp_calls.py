"""The calls of one MCP connection that have no answer yet, or had one a moment ago: whose a message is."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentstop.exceptions import PassExpired
from agentstop.providers.base import Answer, Context, Submission
from agentstop.providers.mcp_tool import McpTool

OPERATION, KEY, ATTEMPT = "agentstop/operation", "agentstop/idempotency-key", "agentstop/attempt"  # names in `_meta`
REMEMBERED = 1000  # calls of one connection that nobody waits for any more, and that are still heard
STREAMS = (
    200  # the same over HTTP, where each keeps a connection open, of which a process has some thousand at the most
)
TASKS_KEPT = 10_000  # of one connection that can still be asked about
PROGRESS_EVERY = 1.0  # seconds between two signs of life that are kept

WireId = int | str


@dataclass(eq=False, slots=True)
class Call:
    """One `tools/call`: what is known of it before its first byte leaves, and what became of it since."""

    tool: McpTool
    operation: int
    key: str
    attempt: int
    before_write: Callable[[], None]
    hear: Callable[[Answer], None]
    answer: asyncio.Future[Answer]
    wire_id: WireId | None = None
    begun: bool = False  # a byte of it may have left
    answered: bool = False
    left_at: float | None = None  # when its sender stopped waiting
    told_to_give_up: bool = False
    sign_at: float | None = None  # of the last progress that was kept
    every: float = PROGRESS_EVERY  # seconds between two signs of life that are kept
    sign_after: bool = False  # one has come after it was told to give up
    request: asyncio.Task[Any] | None = field(default=None, repr=False)  # of the SDK, which waits as well
    dropped: bool = False  # over HTTP: nobody listens to its stream any more
    waiting: anyio.CancelScope | None = field(default=None, repr=False)  # for the next bytes of its stream

    @classmethod
    def of(cls, tool: McpTool, submission: Submission, context: Context) -> Call:
        return cls(
            tool,
            submission.operation,
            submission.idempotency_key,
            submission.attempt,
            context.before_write,
            context.heard,
            asyncio.get_running_loop().create_future(),
        )

    @property
    def meta(self) -> dict[str, Any]:
        """What the server is told of it."""
        return {OPERATION: str(self.operation), KEY: self.key, ATTEMPT: self.attempt}

    def leave(self) -> None:
        """The last thing before its first byte: raises where nothing may leave any more."""
        try:
            self.before_write()
        except PassExpired as error:
            self.fail(error)
            raise
        self.begun = True

    def settle(self, answer: Answer) -> None:
        """Its answer is there: for whoever waits, else as a receipt; a second one is a receipt in any case."""
        waits = not self.answered and self.left_at is None and not self.answer.done()
        self.answered = True
        if waits:
            self.answer.set_result(answer)
        else:
            self.hear(answer)

    def progressed(self, answer: Answer) -> None:
        """A sign of life; of many in a row one a second is kept, and the first after it was told to give up."""
        now = time.monotonic()
        first_after = self.told_to_give_up and not self.sign_after
        due = first_after or self.sign_at is None or now - self.sign_at >= self.every
        if not self.answered and due:
            self.sign_at, self.sign_after = now, self.told_to_give_up
            self.hear(answer)

    def lose(self, answer: Answer) -> None:
        """No answer can come any more; whoever has stopped waiting has said so himself."""
        self.answered = True
        if not self.answer.done():
            self.answer.set_result(answer)

    def drop(self) -> None:
        """Let its stream go. The SDK would keep it open as long as the server does."""
        self.dropped = True
        if self.waiting is not None:
            self.waiting.cancel()

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Calls:
    """All of one connection."""

    def __init__(self, most_left: int = REMEMBERED) -> None:
        self.most_left = most_left
        self._coming: dict[tuple[str, int], Call] = {}  # by key and attempt, until the wire id is known
        self._open: OrderedDict[WireId, Call] = OrderedDict()
        self._answered: OrderedDict[WireId, Call] = OrderedDict()
        self.tasks: OrderedDict[str, None] = OrderedDict()  # begun here, by the server's id

    def expect(self, call: Call) -> None:
        self._coming[(call.key, call.attempt)] = call

    def name(self, wire_id: WireId, meta: Any) -> Call | None:
        """The call that is about to be written under this id; None for requests of other kinds."""
        told = meta if isinstance(meta, dict) else {}
        call = self._coming.pop((told.get(KEY, ""), told.get(ATTEMPT, 0)), None)
        if call is not None:
            call.wire_id = wire_id
            self._open[wire_id] = call
        return call

    def began(self, task: str) -> None:
        """A task that can be asked about here; of very many, the oldest are let go."""
        self.tasks[task] = None
        if len(self.tasks) > TASKS_KEPT:
            self.tasks.popitem(last=False)

    def open(self, wire_id: Any) -> Call | None:
        return self._open.get(wire_id)

    def answered(self, wire_id: Any) -> Call | None:
        """The call that this id answers, for the first time or again."""
        call = self._open.pop(wire_id, None)
        if call is None:
            return self._answered.get(wire_id)
        self._answered[wire_id] = call
        if len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)
        return call

    def of_key(self, key: str) -> Call | None:
        """The last call with this idempotency key that has no answer yet."""
        return next((call for call in reversed(list(self._open.values())) if call.key == key), None)

    def forget(self, call: Call) -> None:
        self._coming.pop((call.key, call.attempt), None)
        if call.wire_id is not None and self._open.get(call.wire_id) is call:
            del self._open[call.wire_id]

    def left_behind(self, keep: float) -> list[Call]:
        """Those that nobody waits for and that were heard for long enough, or are too many."""
        now = time.monotonic()
        left = [call for call in self._open.values() if call.left_at is not None]
        old = [call for call in left if call.left_at is not None and now - call.left_at > keep]
        return list(dict.fromkeys([*old, *left[: max(0, len(left) - self.most_left)]]))

    def all(self) -> list[Call]:
        return [*self._coming.values(), *self._open.values()]

    def clear(self) -> None:
        self._coming.clear()
        self._open.clear()
        self._answered.clear()
        self.tasks.clear()
