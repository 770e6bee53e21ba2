"""One live connection to an MCP server, shared by all tasks: opened at need, kept until it ends, closed by no stop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TextIO, cast

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CancelledNotification,
    CancelledNotificationParams,
    Implementation,
    PaginatedRequestParams,
    Request,
    RequestParamsMeta,
    TaskMetadata,
)
from pydantic import TypeAdapter

from agentstop import __version__
from agentstop.providers import mcp_lines
from agentstop.providers.base import Answer
from agentstop.providers.header_secrets import secrets_of
from agentstop.providers.mcp_calls import REMEMBERED, STREAMS, Call, Calls
from agentstop.providers.mcp_here import in_this_process
from agentstop.providers.mcp_http import ContainedTransport, owned
from agentstop.providers.mcp_tap import Tap
from agentstop.providers.mcp_tool import HANDSHAKE, STATELESS, Hints, hints_of
from agentstop.states import Claim, Source

logger = logging.getLogger(__name__)

TASKS = "io.modelcontextprotocol/tasks"  # the extension of 2026-07-28
PAGES = 20  # of the list of tools that are read
Where = str | StdioServerParameters | MCPServer | Server[Any]  # an address, a program, or a server in this process
_anything: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_modes = {None: "auto", HANDSHAKE: "legacy", STATELESS: STATELESS}


class _AboutTask(Request[dict[str, Any], str]):
    """`tasks/get`, `tasks/result`, `tasks/cancel`; over HTTP the task is named in a header too."""

    name_param: ClassVar[str | None] = "taskId"


class Link:
    """A connection, from its handshake to its end."""

    def __init__(self, server: Where, options: Mapping[str, Any]) -> None:
        self.server, self.options = server, options
        self.calls = Calls(most_left=STREAMS if self.is_http else REMEMBERED)
        secrets = secrets_of(options["headers"])
        self.tap = Tap(self._transport(), self.calls, gated=not self.is_http, secrets=secrets)
        self.client: Client | None = None
        self.hints: dict[str, Hints] = {}
        self.why_ended = ""
        self._closing = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def is_http(self) -> bool:
        """Else it is one stream of messages in each direction, to a program or to a server in this process."""
        return isinstance(self.server, str)

    @property
    def usable(self) -> bool:
        return self.client is not None and not self.tap.ended.is_set() and not self._closing.is_set()

    @property
    def revision(self) -> str:
        return self.client.protocol_version if self.client is not None else ""

    @property
    def notified(self) -> bool:
        """Whether asking to give a call up is a message; otherwise it is closing the call's own stream."""
        return not self.is_http or self.revision < STATELESS

    async def open(self) -> None:
        """Shake hands and read the list of tools; raises where that fails."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # In a context of its own: a server in this process must not take itself to work for the run of the first call.
        self._running = asyncio.create_task(self._run(opened), context=contextvars.Context())
        try:
            await asyncio.shield(opened)
        except BaseException:
            self._closing.set()
            self._running.cancel()
            raise

    async def _run(self, opened: asyncio.Future[None]) -> None:
        """In one task from beginning to end, as the SDK's cancel scopes demand."""
        mcp_lines.cap.set(self.options["body_cap"])
        try:
            async with self._client() as client:
                self.client = client
                await self._list_tools(client)
                if not opened.done():
                    opened.set_result(None)
                await self._until_the_end()
        except Exception as error:
            self.why_ended = self.why_ended or f"{type(_first(error)).__name__}: {_first(error)}"[:300]
            if not opened.done():
                opened.set_exception(error)
        finally:
            self._ended()
            if not opened.done():
                opened.set_exception(ConnectionError(self.why_ended or "the server has ended it"))

    async def _until_the_end(self) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._closing, self.tap.ended)]
        try:
            while not (self._closing.is_set() or self.tap.ended.is_set()):
                await asyncio.wait(waits, timeout=60.0, return_when=asyncio.FIRST_COMPLETED)
                self.let_go(self.calls.left_behind(self.options["keep_late"]))
        finally:
            for wait in waits:
                wait.cancel()

    def _ended(self) -> None:
        self.tap.ended.set()
        why = self.why_ended or "the server has ended it"
        for call in self.calls.all():
            told = "No answer can come" if call.begun else "Nothing was sent"
            claim = Claim.LOST if call.begun else Claim.UNSENT
            call.lose(Answer(claim, Source.SENDER, body=f"{told}: the connection is over ({why})."))
            if call.request is not None:
                call.request.cancel()
        self.calls.clear()

    def let_go(self, calls: list[Call]) -> None:
        """Stop listening for these; over HTTP that closes their streams, or they would stay open."""
        for call in calls:
            if call.request is not None:
                call.request.cancel()
            call.drop()
            self.calls.forget(call)

    def left(self, call: Call) -> None:
        """Nobody waits for this one any more. The tap hears it all the same, and the SDK, which keeps much more of a
        call, forgets it; but over HTTP the SDK's waiting is what keeps the call's stream open.
        """
        call.left_at = time.monotonic()
        if not self.is_http and call.begun and call.request is not None:
            call.request.cancel()
        self.let_go(self.calls.left_behind(self.options["keep_late"]))

    async def has(self, tool: str) -> bool:
        """Whether the server has this tool; one that is not on its list may be new. Without a list nobody knows."""
        if self.client is not None and (self.tap.tools_changed or (self.hints and tool not in self.hints)):
            await self._list_tools(self.client)
        return not self.hints or tool in self.hints

    async def _list_tools(self, client: Client) -> None:
        """Their hints, and the headers that some arguments are to be sent in; a server need not have a list."""
        self.tap.tools_changed = False
        cursor: str | None = None
        found: dict[str, Hints] = {}
        try:
            for _ in range(PAGES):
                page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                for tool in page.tools:
                    told = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
                    found[tool.name] = hints_of(told)
                cursor = page.next_cursor
                if not cursor:
                    break
            self.hints = found
        except Exception:
            logger.warning("an MCP server does not list its tools", exc_info=True, extra={"action": "mcp_no_tools"})

    def send(self, call: Call, name: str, arguments: Mapping[str, Any]) -> None:
        """Begin a call; its answer comes by the tap, whatever the SDK makes of it."""
        self.calls.expect(call)
        call.request = asyncio.create_task(self._send(call, name, arguments))
        call.request.add_done_callback(lambda done: self._sent(call, done))

    async def _send(self, call: Call, name: str, arguments: Mapping[str, Any]) -> None:
        ttl = int(call.tool.ttl * 1000) if call.tool.ttl else None
        task = TaskMetadata(ttl=ttl) if call.tool.task and self.revision < STATELESS else None
        meta = cast("RequestParamsMeta", call.meta)
        params = CallToolRequestParams(name=name, arguments=dict(arguments), task=task, _meta=meta)
        await self._session.send_request(CallToolRequest(params=params), _anything, progress_callback=_heard_by_the_tap)

    def _sent(self, call: Call, done: asyncio.Task[Any]) -> None:
        """The SDK has an answer too, or an error of its own; where the tap had none, that is all there is."""
        call.request = None
        error = None if done.cancelled() else done.exception()
        if call.answered or error is None:
            return
        self.calls.forget(call)
        said = f"{type(error).__name__}: {error}"[:500]
        told, claim = ("No usable answer", Claim.LOST) if call.begun else ("Nothing was sent", Claim.UNSENT)
        call.lose(Answer(claim, Source.SENDER, body=f"{told}: {said}"))

    async def give_up(self, call: Call, before_write: Callable[[], None]) -> None:
        """Ask the server to give a call up: by a message or, where the protocol says so, by closing its stream."""
        before_write()
        call.told_to_give_up = True
        self.tap.granted.add(call.wire_id)
        try:
            params = CancelledNotificationParams(request_id=call.wire_id, reason="stopped")
            await self._session.send_notification(CancelledNotification(params=params))
        finally:
            self.tap.granted.discard(call.wire_id)
        if not self.notified:
            why = "Its stream was closed, which asks the server to give it up; no answer can come by it any more."
            call.lose(Answer(Claim.LOST, Source.SENDER, body=why))
            self.let_go([call])  # the SDK would wait for an answer for ever

    async def about_task(self, method: str, ref: str) -> Mapping[str, Any]:
        """Ask about a task; raises `MCPError` with what the server says against it."""
        told: dict[str, Any] = await self._session.send_request(
            _AboutTask(method=method, params={"taskId": ref}), _anything
        )
        return told

    @property
    def _session(self) -> Any:
        if self.client is None:
            raise RuntimeError("the connection is not open")
        return self.client.session

    async def close(self) -> None:
        """Release it, when the process ends."""
        self.why_ended = self.why_ended or "this process has closed it"
        self._closing.set()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=10.0)

    def _client(self) -> Client:
        return Client(
            self.tap,
            mode=_modes[self.options["revision"]],
            client_info=Implementation(name="agentstop", version=__version__),
            extensions=[advertise(TASKS)] if self.options["tasks"] else None,
            cache=None,
        )

    def _transport(self) -> Any:
        if isinstance(self.server, str):
            return self._http(self.server)
        if not isinstance(self.server, StdioServerParameters):
            return in_this_process(self.server)
        capped = self.server.model_copy(update={"encoding": mcp_lines.NAME, "encoding_error_handler": "replace"})
        return stdio_client(capped, errlog=sys.__stderr__ or cast(TextIO, subprocess.DEVNULL))

    def _http(self, url: str) -> Any:
        inner = httpx2.AsyncHTTPTransport(
            verify=self.options["verify"] if url.startswith("https:") else False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        client = httpx2.AsyncClient(
            transport=ContainedTransport(
                inner, self.calls, cap=self.options["body_cap"], secrets=secrets_of(self.options["headers"])
            ),
            headers={
                **self.options["headers"],
                "user-agent": f"agentstop/{__version__}",
                "accept-encoding": "identity",
            },
            timeout=httpx2.Timeout(None, connect=self.options["connect_timeout"]),
            trust_env=False,
        )
        return owned(client, streamable_http_client(url, http_client=client))


async def _heard_by_the_tap(progress: float, total: float | None, message: str | None) -> None:
    """It is here so that the server is asked for progress."""


def _first(error: BaseException) -> BaseException:
    """What went wrong, out of the groups in which task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
