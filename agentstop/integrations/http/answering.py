"""A response as evidence, and back: what is kept of it, what it says of the effect, and how a client gets it again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import httpx

from agentstop import connectors
from agentstop.providers.base import Answer
from agentstop.providers.http import HttpProvider
from agentstop.providers.http_action import HttpAction
from agentstop.providers.http_answers import submitted
from agentstop.providers.http_exchange import REASONS, reply_of
from agentstop.states import Claim, Source

# Of the headers of a response only these are kept: others may hold cookies and tokens.
KEPT = ("content-type", "location", "retry-after", "request-id", "x-request-id")
PLAIN = HttpAction("/", state_field="")
REDIRECTS = frozenset({301, 302, 303, 307, 308})
KINDS = {kind.__name__: why for kind, why in REASONS.items()}  # httpx2 has the same ones under the same names


@dataclass(frozen=True, slots=True)
class Seen:
    """A response that was read, whole or up to the cap."""

    url: str
    status: int
    headers: list[tuple[str, str]]
    content: bytes
    cut: bool = False
    secrets: tuple[str, ...] = ()  # of the request: masked in what is kept

    @property
    def redirects(self) -> bool:
        return self.status in REDIRECTS and any(name.lower() == "location" for name, _ in self.headers)


def answer_of(seen: Seen, connector: str, action: str) -> Answer:
    """What it says of the effect; its result is what `response` needs to give it once more."""
    headers = httpx.Headers(seen.headers)
    reply = reply_of(httpx.URL(seen.url), seen.status, headers, seen.content, seen.cut, seen.secrets)
    answer = submitted(_described(connector, action), reply)
    if answer.claim is not Claim.SUCCEEDED:
        return answer
    kept = {name: headers[name] for name in KEPT if name in headers}
    # What the client makes of an answer that announces JSON and is none is the client's to say.
    return replace(answer, result={"status": seen.status, "headers": kept, "text": reply.text}, unread=False)


def _described(connector: str, action: str) -> HttpAction:
    """How the connector reads this action, where it is an HttpProvider that knows it."""
    provider = connectors.get(connector)
    return provider.actions.get(action, PLAIN) if isinstance(provider, HttpProvider) else PLAIN


def no_answer(error: Exception, *, begun: bool) -> Answer:
    """There is no usable response: unsent where no byte of the request had left."""
    why = KINDS.get(type(error).__name__, type(error).__name__)  # its own text may quote headers
    if begun:
        return Answer(Claim.LOST, Source.SENDER, body=f"No usable answer: {why}.")
    return Answer(Claim.UNSENT, Source.SENDER, body=f"Nothing was sent: {why}.")


def response(library: Any, seen: Seen) -> Any:
    """The response for the client, as it came."""
    return library.Response(seen.status, headers=seen.headers, content=seen.content)


def replayed(library: Any, result: Any) -> Any:
    """The response of an operation that had succeeded before, out of what was kept of it."""
    return library.Response(result["status"], headers=result["headers"], content=result["text"].encode())


def library_of(transport: Any) -> Any:
    """httpx or httpx2: whichever the transport is from."""
    for kind in type(transport).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    raise TypeError(f"{transport!r:.100} is a transport neither of httpx nor of httpx2.")
