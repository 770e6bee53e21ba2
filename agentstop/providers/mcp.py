"""A provider for the tools of an MCP server, over stdio, over streamable HTTP or in this process.

It keeps what is heard late.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

try:
    from mcp import MCPError, StdioServerParameters
    from mcp.server import MCPServer, Server
except ImportError:
    raise ImproperlyConfigured("McpProvider needs the official MCP SDK: pip install 'agentstop[mcp]'.") from None

from agentstop.providers.base import Answer, Cancel, CancelReply, Capability, Context, Provider, Submission
from agentstop.providers.mcp_answers import error_answer, result_answer, task_answer
from agentstop.providers.mcp_calls import Call
from agentstop.providers.mcp_link import Link, _first
from agentstop.providers.mcp_server import where
from agentstop.providers.mcp_tool import (
    HANDSHAKE,
    REVISIONS,
    STATELESS,
    McpTool,
    Policy,
    ToolErrors,
    capability_of,
    checked_tools,
    disconnect_in,
    with_errors_told,
)
from agentstop.states import Claim, Source

__all__ = ["McpProvider", "McpTool", "Policy", "ToolErrors"]

GONE = -32602  # no such task (any more)


class McpProvider(Provider):
    """The tools of one MCP server, as options describe them; see `McpTool` for what one can say about itself.

    The connection is opened at the first call and shared by all. No stop closes it. It never calls a tool a second
    time by itself. What is heard of a call after its caller has gone is kept as a receipt.
    """

    bound = True

    def __init__(
        self,
        *,
        url: str = "",
        command: Sequence[str] = (),
        server: str | MCPServer | Server[Any] = "",  # in this process: it, or the dotted path to it
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        headers: Mapping[str, str] | None = None,
        revision: str | None = None,  # of the protocol; None: the newest that both sides speak
        tools: Mapping[str, McpTool] | None = None,  # None: every tool, with the defaults
        connect_timeout: float = 10.0,
        keep_late: float = 3600.0,  # seconds for which an answer that nobody waits for is still heard
        body_cap: int = 10_000_000,  # bytes of a reply that are read; over stdio of one message
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        self.server = where(url, command, server, env, cwd)
        if self.is_here:
            revision = revision or HANDSHAKE
        if revision not in (None, *REVISIONS):
            raise ImproperlyConfigured(
                f"McpProvider revision is {revision!r}: use one of {', '.join(REVISIONS)}, or None."
            )
        if self.is_here and revision != HANDSHAKE:
            raise ImproperlyConfigured(f"McpProvider revision: a server in this process speaks {HANDSHAKE} alone.")
        for name, number in (("connect_timeout", connect_timeout), ("keep_late", keep_late), ("body_cap", body_cap)):
            if not number > 0:
                raise ImproperlyConfigured(f"McpProvider {name} is {number!r}: pass a number above 0.")
        self.revision, self.connect_timeout = revision, connect_timeout
        self.tools = checked_tools(tools) if tools is not None else None
        self.options = {
            "headers": dict(headers or {}),
            "revision": revision,
            "connect_timeout": connect_timeout,
            "keep_late": keep_late,
            "body_cap": body_cap,
            "verify": verify,
            "tasks": any(tool.task for tool in (tools or {}).values()),
        }
        self._link: Link | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Lock | None = None

    def capability(self, action: str) -> Capability:
        """What this tool can do about its effects. Its hints are known once this process has spoken to the server."""
        tool, link = self._tool(action), self._link
        notified = (
            not self.is_http or self.revision == HANDSHAKE or (link is not None and link.usable and link.notified)
        )
        spoken = self.revision or (link.revision if link is not None and link.usable else None)
        return capability_of(
            tool,
            notified=notified,
            hints=link.hints.get(action) if link is not None else None,
            disconnect=disconnect_in(spoken, http=self.is_http),
        )

    def known_actions(self) -> tuple[str, ...]:
        """Those of the settings, else those that the server has listed to this process."""
        link = self._link
        return tuple(sorted(self.tools if self.tools is not None else link.hints if link is not None else ()))

    async def submit(self, submission: Submission, context: Context) -> Answer:
        """Call the tool once; the pass is tested as the first byte is about to leave."""
        try:
            tool = self._tool(submission.action)
            link = await self._open(context.deadline)
        except Exception as error:
            return Answer(Claim.UNSENT, Source.SENDER, body=f"Nothing was sent: {_said(error)}")
        if not await link.has(submission.action):
            return Answer(Claim.UNSENT, Source.SENDER, body=f"Nothing was sent: the server has no {submission.action}.")
        call = Call.of(with_errors_told(tool, link.hints.get(submission.action)), submission, context)
        link.send(call, submission.action, _arguments(tool, submission))
        try:
            answer = await call.answer
        finally:
            link.left(call)
        return answer

    def reaches(self, submission: Submission) -> bool:
        """Over HTTP of 2026-07-28 a task can be asked about from anywhere; all else over the connection it began on."""
        link = self._link if self._link is not None and self._link.usable else None
        if submission.ref:
            begun_here = link is not None and submission.ref in link.calls.tasks
            return begun_here or (self.is_http and self.revision == STATELESS)
        call = link.calls.of_key(submission.idempotency_key) if link is not None else None
        return call is not None and not call.told_to_give_up

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        """Ask the server to give it up: a task by its id, a call by the means of its revision and transport."""
        if self.capability(submission.action).cancel is Cancel.NEVER:
            return CancelReply(Claim.UNSENT, body=f"Nothing was sent: {submission.action} is left to finish.")
        if submission.ref:
            return await self._cancel_task(submission, context)
        link = self._link
        call = link.calls.of_key(submission.idempotency_key) if link is not None and link.usable else None
        if link is None or call is None or not call.begun:
            return CancelReply(Claim.UNSENT, body="Nothing was sent: no call of it is open on this connection.")
        await link.give_up(call, context.before_write)
        how = "notifications/cancelled was sent" if link.notified else "its stream was closed"
        return CancelReply(Claim.LOST, body=f"For request {call.wire_id} {how}. The protocol has no answer to that.")

    async def _cancel_task(self, submission: Submission, context: Context) -> CancelReply:
        tool, ref = self._tool(submission.action), submission.ref
        link = await self._of_task(ref, context.deadline)
        if link is None:
            return CancelReply(Claim.UNSENT, body="Nothing was sent: the connection on which the task began is over.")
        context.before_write()
        try:
            told = await link.about_task("tasks/cancel", ref)
        except MCPError as error:
            said = error.error.model_dump(mode="json")
            turned_down = error_answer(said).claim is Claim.REFUSED
            return CancelReply(Claim.REFUSED if turned_down else Claim.LOST, body=error_answer(said).body)
        if "status" not in told:
            return CancelReply(Claim.CANCELLED, body=str(dict(told)))
        answer = task_answer(tool, told, source=Source.PROVIDER)
        about_effect = answer if answer.claim is Claim.CANCELLED else None
        return CancelReply(Claim.CANCELLED, body=answer.body, answer=about_effect)

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        """Ask for the task's status, and for its result where that is asked for apart."""
        tool, ref = self._tool(submission.action), submission.ref
        link = await self._of_task(ref, deadline) if ref else None
        if link is None:
            return None
        try:
            told = await link.about_task("tasks/get", ref)
            answer = task_answer(tool, told, source=Source.READ_BACK)
            if answer.claim in (Claim.SUCCEEDED, Claim.FAILED) and "result" not in told and link.revision < STATELESS:
                result = await link.about_task("tasks/result", ref)
                answer = _with_ref(result_answer(tool, result), ref)
        except MCPError as error:
            if error.error.code != GONE:
                return None
            link.calls.tasks.pop(ref, None)
            return Answer(Claim.NOT_FOUND, Source.READ_BACK, ref=ref, body=error.error.message)
        return None if answer.claim is Claim.LOST else answer

    async def _of_task(self, ref: str, deadline: float) -> Link | None:
        link = self._link
        if link is not None and link.usable and ref in link.calls.tasks:
            return link
        if not self.is_http or self.revision != STATELESS:
            return None
        return await self._open(deadline)

    async def aclose(self) -> None:
        """Close the connection; a later call opens another."""
        link, self._link = self._link, None
        if link is not None and self._loop is asyncio.get_running_loop():
            await link.close()

    @property
    def is_http(self) -> bool:
        return isinstance(self.server, str)

    @property
    def is_here(self) -> bool:
        """The server is in this process."""
        return not isinstance(self.server, str | StdioServerParameters)

    def describe(self) -> str:
        """Where it leads, for people: no arguments, headers or logins."""
        told = f"revision {self.revision}" if self.revision else "the newest revision that both sides speak"
        if isinstance(self.server, str):
            parts = urlsplit(self.server)
            return f"MCP over HTTP at {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}, {told}"
        if isinstance(self.server, StdioServerParameters):
            return f"MCP over stdio, {self.server.command}, {told}"
        return f"MCP in this process, {self.server.name}, {told}"

    def _tool(self, action: str) -> McpTool:
        if self.tools is None:
            return McpTool()
        if action not in self.tools:
            known = ", ".join(sorted(self.tools)) or "none"
            raise LookupError(f"no action {action!r}: use one of {known}, or add it to the option tools")
        return self.tools[action]

    async def _open(self, deadline: float) -> Link:
        """The connection of the running loop, opened anew where there is none or it has ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._opening is None:
            self._loop, self._opening, self._link = loop, asyncio.Lock(), None
        async with self._opening:
            if self._link is None or not self._link.usable:
                link = Link(self.server, self.options)
                async with asyncio.timeout(min(deadline, self.connect_timeout)):
                    await link.open()
                self._link = link
            return self._link


def _arguments(tool: McpTool, submission: Submission) -> dict[str, Any]:
    if not tool.key_argument:
        return dict(submission.args)
    return {**submission.args, tool.key_argument: submission.idempotency_key}


def _with_ref(answer: Answer, ref: str) -> Answer:
    return Answer(answer.claim, answer.source, ref=ref, body=answer.body, result=answer.result)


def _said(error: BaseException) -> str:
    cause = _first(error)
    if isinstance(cause, TimeoutError):
        return "connecting took too long"
    return f"{type(cause).__name__}: {cause}"[:500]
