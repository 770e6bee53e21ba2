"""What the tests of the HTTP provider share: a provider, submissions, contexts, replies as bytes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentstop.exceptions import PassExpired
from agentstop.providers.base import (
    Answer,
    Cancel,
    Capability,
    Context,
    LookUp,
    Submission,
    SubmitIdempotency,
)
from agentstop.providers.http import HttpAction, HttpProvider
from tests.providers.raw import RawServer, raw_server, saying_once

GUARD = 30.0
KEYED = Capability(
    submit=SubmitIdempotency.KEY,
    look_up=LookUp.BY_REF,
    authoritative=True,
    cancel=Cancel.BEST_EFFORT,
    cancel_needs_ref=True,
)
ACTIONS = {
    "job.create": HttpAction("/jobs", capability=KEYED, look_up_path="{ref}", cancel_path="{ref}"),
    "file.put": HttpAction("/files/{folder}/{name}", method="PUT"),
    "page.get": HttpAction("/pages", method="GET"),
}


@asynccontextmanager
async def provider_at(address: str, **options: Any) -> AsyncIterator[HttpProvider]:
    provider = HttpProvider(**{"base_url": address, "actions": ACTIONS, **options})
    try:
        yield provider
    finally:
        await provider.aclose()


def job(key: str = "k-1", *, ref: str = "", action: str = "job.create", **args: Any) -> Submission:
    return Submission(operation=1, action=action, args=args, idempotency_key=key, ref=ref)


def freely(deadline: float = GUARD) -> Context:
    return Context(before_write=lambda: None, deadline=deadline)


def expired() -> None:
    raise PassExpired("too old")


VOID = Context(before_write=expired, deadline=GUARD)


async def said(reply: bytes, **options: Any) -> Answer:
    """The answer to one submit that the server answers with these bytes and then closes."""
    async with raw_server(saying_once(reply)) as server, provider_at(server.address, **options) as provider:
        return await provider.submit(job(), freely())


def closed_port() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def json_reply(content: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def lowered(server: RawServer) -> bytes:
    return b"".join(connection.read for connection in server.connections).lower()
