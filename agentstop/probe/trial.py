"""One call of the probed tool, watched on the wire: what was answered, when, and what the referee says was done."""

from __future__ import annotations

import asyncio
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentstop.providers.base import Answer, Context, Submission
from agentstop.providers.mcp_calls import Call
from agentstop.providers.mcp_link import Link
from agentstop.providers.mcp_tool import McpTool, ToolErrors
from agentstop.states import Claim


@dataclass(frozen=True, slots=True)
class Subject:
    """What is probed. `effects`: a command whose output changes with each effect that is made."""

    server: Any
    options: Mapping[str, Any]
    tool: str
    arguments: Mapping[str, Any]
    effects: str = ""
    longest: float = 60.0  # seconds that one call is waited for

    def seen(self) -> str | None:
        """What the referee prints now; None where there is none."""
        if not self.effects:
            return None
        done = subprocess.run(self.effects, shell=True, capture_output=True, text=True, timeout=30)  # noqa: S602  the reader's own command
        return done.stdout if done.returncode == 0 else None

    async def open(self) -> Link:
        link = Link(self.server, self.options)
        async with asyncio.timeout(self.options["connect_timeout"]):
            await link.open()
        return link


@dataclass(slots=True)
class Watched:
    """A call under way, and everything that was heard of it."""

    call: Call
    began: float
    heard: list[tuple[float, Answer]] = field(default_factory=list)
    answered_at: float | None = None

    def after(self, moment: float) -> list[Answer]:
        return [answer for at, answer in self.heard if at > moment]

    async def answered(self, seconds: float) -> Answer | None:
        await asyncio.wait({self.call.answer}, timeout=seconds)
        return self.call.answer.result() if self.call.answer.done() else None

    async def alive(self, seconds: float) -> bool:
        """Wait so long, or until its first sign of life; whether there was one."""
        until = time.monotonic() + seconds
        while not self.heard and not self.call.answer.done() and time.monotonic() < until:
            await asyncio.sleep(0.01)
        return bool(self.heard)


def begin(subject: Subject, link: Link, *, task: bool = False, key: str = "") -> Watched:
    """Call the tool once, with an idempotency key of its own unless one is given."""
    heard: list[tuple[float, Answer]] = []

    def hear(answer: Answer) -> None:
        heard.append((time.monotonic(), answer))

    submission = Submission(0, subject.tool, subject.arguments, key or str(uuid.uuid4()))
    context = Context(before_write=lambda: None, deadline=subject.longest, heard=hear)
    tool = McpTool(task=task, errors=ToolErrors.FAILED)
    watched = Watched(Call.of(tool, submission, context), time.monotonic(), heard)
    watched.call.every = 0.0  # one that comes after a cancel must not be missed
    watched.call.answer.add_done_callback(lambda _: setattr(watched, "answered_at", time.monotonic()))
    link.send(watched.call, subject.tool, subject.arguments)
    return watched


def is_proof(answer: Answer | None) -> bool:
    """A result, and not an error, a loss or nothing."""
    return answer is not None and answer.claim in (Claim.SUCCEEDED, Claim.ACCEPTED)
