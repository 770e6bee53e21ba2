"""Below the SDK's HTTP transport: the pass is tested as the first byte is about to leave, and errors are contained.

One request that raises would end the SDK's whole connection, and with it the calls of every other task. So nothing
raises here: what went wrong becomes the answer to the one request that it happened to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from agentstop.exceptions import PassExpired
from agentstop.providers.header_secrets import without
from agentstop.providers.mcp_answers import NOTHING_LEFT, OF_TRANSPORT, answer_in
from agentstop.providers.mcp_calls import Call, Calls
from agentstop.providers.mcp_second import Listened, unless_dropped

WRITE_BEGINS = ".send_request_headers.started"  # of httpcore's trace, after `http11` or `http2`
READ = {"text/event-stream", "application/json"}


class ContainedTransport(httpx2.AsyncBaseTransport):
    """Sends by another transport; a reply, or an error in its place, for every request."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, calls: Calls, *, cap: int, secrets: tuple[str, ...] = ()
    ) -> None:
        self.inner, self.calls, self.cap, self.secrets = inner, calls, cap, secrets
        self._lingering: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = _asked(request)
        call = self.calls.open(asked.get("id"))
        request.extensions = {**request.extensions, "trace": _Write(call)}
        try:
            response = await unless_dropped(call, self.inner.handle_async_request(request))
        except PassExpired as error:
            if call is not None:
                self.calls.forget(call)  # whoever waits for it knows
            return _instead(request, asked, str(error))
        except Exception as error:
            status = NOTHING_LEFT if call is not None and not call.begun else 0
            return _instead(request, asked, _unanswered(request, error, status), status)
        if response is None:
            return _instead(request, asked, "Nobody listens for its answer any more.")
        why = self._unusable(response) if "id" in asked else ""
        if why:
            await response.aclose()
            return _instead(request, asked, why, response.status_code)
        heard = self._second(call) if call is not None and _is_stream(response) else None
        response.stream = _Body(response.stream, self.cap, call, heard, self._lingering)
        return response

    def _second(self, call: Call) -> Callable[[dict[str, Any]], None]:
        """Keeps what is answered to this call once more, beside what was answered first."""

        def heard(told: dict[str, Any]) -> None:
            if told.get("id") == call.wire_id:
                call.hear(answer_in(call.tool, without(told, self.secrets)))

        return heard

    def _unusable(self, response: httpx2.Response) -> str:
        """Why the SDK must not be given this reply to a request; empty where it may."""
        status = response.status_code
        kind = _kind(response)
        if 300 <= status < 400:
            return f"HTTP {status}: a redirect, which is not followed. Configure the address that it leads to."
        if status >= 400:
            return "" if kind == "application/json" else f"HTTP {status}"
        return "" if kind in READ else f"HTTP {status} without an answer"

    async def aclose(self) -> None:
        for task in list(self._lingering):
            task.cancel()
        await asyncio.gather(*self._lingering, return_exceptions=True)
        await self.inner.aclose()


class _Write:
    """Hears from the connection when the first byte is about to leave, and asks whether it may."""

    def __init__(self, call: Call | None) -> None:
        self.call = call

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if self.call is not None and event.endswith(WRITE_BEGINS):
            self.call.leave()


class _Body(Listened, httpx2.AsyncByteStream):
    """As the client wants it."""


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_stream(response: httpx2.Response) -> bool:
    return _kind(response) == "text/event-stream"


def _unanswered(request: httpx2.Request, error: Exception, status: int | str) -> str:
    where = f"{request.url.host}:{request.url.port or request.url.scheme}"
    # The error's own text may quote headers, so only its kind is told.
    kind = f"no connection ({str(error)[:200]})" if isinstance(error, httpx2.ConnectError) else type(error).__name__
    return f"{'Nothing was sent to' if status == NOTHING_LEFT else 'No usable answer from'} {where}: {kind}."


def _asked(request: httpx2.Request) -> Mapping[str, Any]:
    if request.method != "POST":
        return {}
    try:
        told = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return {}
    return told if isinstance(told, dict) else {}


def _instead(request: httpx2.Request, asked: Mapping[str, Any], why: str, status: int | str = 0) -> httpx2.Response:
    """A JSON-RPC error that says what happened to this request; to what is no request, a plain 503."""
    if "id" not in asked:
        return httpx2.Response(503, request=request)
    error = {"code": -32000, "message": why, "data": {OF_TRANSPORT: status}}
    return httpx2.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "error": error}, request=request)


class owned:  # noqa: N801  a function in all but form
    """A transport with the HTTP client that is its own."""

    def __init__(self, client: httpx2.AsyncClient, transport: Any) -> None:
        self.client, self.transport = client, transport

    async def __aenter__(self) -> Any:
        await self.client.__aenter__()
        return await self.transport.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        try:
            return await self.transport.__aexit__(*error)
        finally:
            await self.client.__aexit__(None, None, None)
