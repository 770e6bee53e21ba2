"""One request over a shared client, sent at most once: a whole reply, or why there is none and whether a byte left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx

from agentstop.bodies import safe
from agentstop.exceptions import PassExpired
from agentstop.providers.base import BeforeWrite
from agentstop.providers.header_secrets import secrets_of, without
from agentstop.states import Claim

# Events of httpcore's trace; the last follows `http11` or `http2`.
CONNECTED, SECURED = "connection.connect_tcp.complete", "connection.start_tls.complete"
WRITE_BEGINS = ".send_request_headers.started"

REASONS: Mapping[type[Exception], str] = {
    httpx.ConnectTimeout: "connecting took too long",
    httpx.PoolTimeout: "no connection became free",
    httpx.ReadError: "the connection was lost",
    httpx.WriteError: "the connection was lost while the request was written",
    httpx.RemoteProtocolError: "the reply was incomplete or not HTTP",
}


IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that arrived whole, or whole up to the cap. `data` is the JSON in it, None where there is none."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    text: str = ""
    data: Any = None
    cut: bool = False
    unread: bool = False  # it announces JSON that cannot be read: broken, cut, or encoded without being asked to be


@dataclass(frozen=True, slots=True)
class NoReply:
    """No usable reply: unsent where no byte of the request left, else lost. `why` is for people and holds no secret."""

    claim: Claim
    why: str


class _Write:
    """Hears from the connection when the first byte is about to leave, and asks whether it may."""

    def __init__(self, before: BeforeWrite | None) -> None:
        self.before, self.begun = before, False
        self.half_open: Any = None  # a socket whose TLS handshake is under way

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == CONNECTED:
            self.half_open = info["return_value"]
        elif event == SECURED:
            self.half_open = None
        elif event.endswith(WRITE_BEGINS):
            self.half_open = None
            if self.before is not None:
                self.before()
            self.begun = True

    async def close(self) -> None:
        """Close what httpcore leaves open when it is cancelled in the middle of a handshake."""
        if self.half_open is not None:
            await self.half_open.aclose()


async def exchange(
    client: httpx.AsyncClient,
    request: httpx.Request,
    *,
    deadline: float,
    cap: int,
    before_write: BeforeWrite | None = None,
) -> Reply | NoReply:
    """Send the request once and read the reply, within the deadline; raises nothing but `PassExpired`."""
    write = _Write(before_write)
    request.extensions = {**request.extensions, "trace": write}
    try:
        async with asyncio.timeout(deadline):
            response = await client.send(request, stream=True)
            try:
                content, cut = await _read(response, cap)
                secrets = secrets_of(request.headers)
                return reply_of(response.url, response.status_code, response.headers, content, cut, secrets)
            finally:
                await response.aclose()
    except PassExpired:
        raise
    except Exception as error:
        return _no_reply(request, error, begun=write.begun, deadline=deadline)
    finally:
        await write.close()


def _no_reply(request: httpx.Request, error: Exception, *, begun: bool, deadline: float) -> NoReply:
    where = f"{request.url.host}:{request.url.port or request.url.scheme}"
    if isinstance(error, TimeoutError):
        why = f"the deadline of {deadline:g} s passed"
    elif isinstance(error, httpx.ConnectError):
        why = f"no connection ({str(error)[:200]})"
    else:
        # The error's own text may quote headers, so only its kind is told.
        why = REASONS.get(type(error), type(error).__name__)
    if begun:
        return NoReply(Claim.LOST, safe(f"No usable answer from {where}: {why}."))
    return NoReply(Claim.UNSENT, safe(f"Nothing was sent to {where}: {why}."))


async def _read(response: httpx.Response, cap: int) -> tuple[bytes, bool]:
    # Raw: a small compressed body could unpack to more than the cap before anyone can count it.
    held = bytearray()
    async for chunk in response.aiter_raw():
        room = cap - len(held)
        held += chunk[:room]
        if len(chunk) > room:
            return bytes(held), True
    return bytes(held), False


def reply_of(
    url: httpx.URL, status: int, headers: httpx.Headers, content: bytes, cut: bool, secrets: Sequence[str] = ()
) -> Reply:
    """What was read of a reply, safe to be stored; `cut`: it is not all of it. `secrets` are masked in it."""
    text, data, unread = _decoded(headers, content, cut)
    text, data = without(text, secrets), without(data, secrets)
    if cut:
        text += f"\n[cut after {len(content)} bytes]"
    cut = cut or _encoding(headers) != IDENTITY
    return Reply(url, status, headers, text, data, cut, unread)


def _encoding(headers: httpx.Headers) -> str:
    return str(headers.get("content-encoding", IDENTITY)).lower()


def _decoded(headers: httpx.Headers, content: bytes, cut: bool) -> tuple[str, Any, bool]:
    """The text, the JSON in it, and whether it announces JSON that cannot be read."""
    encoding, promised = _encoding(headers), _announces_json(headers)
    if encoding != IDENTITY:
        return f"[{len(content)} bytes in the encoding {safe(encoding)}, which was not asked for]", None, promised
    text = safe(content.decode("utf-8", "replace"))
    if cut or not promised:
        return text, None, promised
    try:
        return text, _clean(json.loads(text, parse_constant=_no_constant)), False
    except (ValueError, RecursionError):
        return text, None, bool(text.strip())


def _announces_json(headers: httpx.Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return bool(kind == "application/json" or kind.endswith("+json"))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _clean(value: Any) -> Any:
    """JSON without what databases refuse: escaped NULs and lone surrogates, numbers beyond a float."""
    match value:
        case str():
            return safe(value)
        case float() if value in (float("inf"), float("-inf")):
            raise ValueError("a number beyond what a float can hold")
        case dict():
            return {safe(name): _clean(item) for name, item in value.items()}
        case list():
            return [_clean(item) for item in value]
        case _:
            return value
