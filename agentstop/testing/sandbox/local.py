"""The sandbox without a process and without a socket: in this process, on agentstop's own loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import httpx

from agentstop.providers.base import BeforeWrite
from agentstop.providers.http import HttpProvider
from agentstop.providers.http_exchange import NoReply, Reply, reply_of
from agentstop.sending import sender
from agentstop.states import Claim
from agentstop.testing.sandbox.app import Request, Sandbox
from agentstop.testing.sandbox.client import SandboxClient, SandboxError
from agentstop.testing.sandbox.connector import sandbox_connector
from agentstop.testing.sandbox.desk import HangUp, Response
from agentstop.testing.sandbox.ledger import Ledger

ADDRESS = "http://sandbox.local"
GUARD = 90.0
_current: tuple[asyncio.AbstractEventLoop, Sandbox] | None = None


def _here() -> Sandbox:
    """The sandbox of the running loop, with an empty ledger where the loop is a new one."""
    global _current
    loop = asyncio.get_running_loop()
    if _current is None or _current[0] is not loop:
        ledger = Ledger(":memory:")

        async def close() -> None:
            ledger.close()

        sender().at_end(ledger, close)
        _current = (loop, Sandbox(ledger))
    return _current[1]


async def _answered(request: Request) -> Response:
    """To its end, whether somebody waits for it or not."""
    return await asyncio.shield(asyncio.ensure_future(_here()._answered(request)))


class LocalProvider(HttpProvider):
    """`HttpProvider` with the sandbox in this process behind it, in place of a socket."""

    async def _exchange(
        self, request: httpx.Request, deadline: float, before_write: BeforeWrite | None = None
    ) -> Reply | NoReply:
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = parse_qs(request.url.query.decode())
        asked = Request(request.method, request.url.path, query, headers, request.content)
        if before_write is not None:
            before_write()
        try:
            async with asyncio.timeout(deadline):
                told = await _answered(asked)
        except (HangUp, TimeoutError) as error:
            return NoReply(Claim.LOST, f"No usable answer from the sandbox: {type(error).__name__}.")
        return reply_of(request.url, told.status, httpx.Headers(_headers(told)), _content(told), False)


class LocalSandbox(SandboxClient):
    """Its control and ledger; the same verbs as with the one on a socket. It lasts as long as agentstop's loop."""

    def __init__(self) -> None:
        self.address = ADDRESS

    def close(self) -> None: ...

    def connector(self, **options: Any) -> dict[str, Any]:
        """An entry of `AGENTSTOP_CONNECTORS`; see `sandbox_connector`."""
        return sandbox_connector(ADDRESS, provider=f"{__name__}.LocalProvider", **options)

    def ledger(self, *, task: str = "") -> dict[str, Any]:
        """As with the one on a socket."""
        return self._ask(Request("GET", "/ledger", {"task": [task]} if task else {}, {}, b""))

    def _control(self, verb: str, **body: Any) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        return self._ask(Request("POST", f"/_control/{verb}", {}, headers, json.dumps(body).encode()))

    def _ask(self, request: Request) -> dict[str, Any]:
        told = sender().start(lambda: _answered(request)).result(GUARD)
        if told.status != 200:
            raise SandboxError(f"The sandbox answered {told.status} to {request.method} {request.path}: {told.body}")
        answer: dict[str, Any] = told.body
        return answer


def _headers(told: Response) -> dict[str, str]:
    return {"content-type": told.kind, **told.headers}


def _content(told: Response) -> bytes:
    return told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
