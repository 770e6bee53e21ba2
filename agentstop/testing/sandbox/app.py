"""The sandbox as an ASGI program: reads a request, asks the desk, writes the response or hangs up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from agentstop.testing.sandbox.desk import Desk, HangUp, Response, error
from agentstop.testing.sandbox.holds import ANY, HeldTooLong, Holds
from agentstop.testing.sandbox.ledger import Effect, Ledger
from agentstop.testing.sandbox.page import CSP, page

HANG_UP = "agentstop.hang_up"  # the scope's extension that cuts the connection; the server puts it there
BODY_LIMIT = 1_000_000
LONGEST_WAIT = 60.0
CREATE = re.compile(r"/(report|upload|notification)s")
EFFECT = re.compile(r"/(report|upload|notification|undo)s/([0-9]{1,18})")
OPERATION = re.compile(r"/operations/(.+)")
CONTROL = re.compile(r"/_control/(hold|wait|release|settled|misbehave|reset)")
STYLE = (Path(__file__).parent / "ledger.css").read_bytes()

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """The idempotency key, bare or as the string of a structured field."""
        told = self.headers.get("idempotency-key", "").strip()
        if len(told) >= 2 and told[0] == told[-1] == '"':
            return re.sub(r"\\(.)", r"\1", told[1:-1])
        return told


class Sandbox:
    """The ASGI callable. Requests are worked on to their end, whether their client is still there or not."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.holds = ledger, Holds()
        self.desk = Desk(ledger, self.holds)
        self._tasks: set[asyncio.Task[Response]] = set()

    def start(self) -> None:
        """Go on with what was accepted before a restart; called on the loop."""
        self.desk.resume()

    def stop(self) -> None:
        """Give up what is held or worked on; a restart goes on with what was accepted."""
        self.desk.stop()
        for task in self._tasks:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = await _read(scope, receive)
        task = asyncio.create_task(self._answered(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            response = await asyncio.shield(task)
        except HangUp as hang_up:
            scope["extensions"][HANG_UP](hang_up.reset)
            return
        await _write(send, _linked(response, request.headers.get("host", "")))

    async def _answered(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except HeldTooLong as problem:
            return error(500, str(problem))

    async def _answer(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._post(request)
        if request.method not in {"GET", "DELETE"}:
            return error(405, "use GET, POST or DELETE")
        if request.method == "GET" and request.path in {"/", "/ledger", "/ledger.css"}:
            return self._told(request)
        if found := OPERATION.fullmatch(request.path):
            key = found[1]
            return self.desk.by_key(key) if request.method == "GET" else await self.desk.cancel(self.ledger.by_key(key))
        if found := EFFECT.fullmatch(request.path):
            kind, number = found[1], int(found[2])
            if request.method == "GET":
                return self.desk.by_id(kind, number)
            return await self.desk.cancel(self.ledger.by_id(kind, number))
        return error(404, "there is nothing here")

    async def _post(self, request: Request) -> Response:
        # A page of another origin cannot send this type without being asked first, so it cannot press anything here.
        if not request.headers.get("content-type", "").startswith("application/json"):
            return error(415, "send JSON, as application/json")
        try:
            body = json.loads(request.body or b"{}")
        except ValueError:
            return error(400, "the body is not JSON")
        if not isinstance(body, dict):
            return error(400, "the body must be an object")
        if found := CREATE.fullmatch(request.path):
            return await self.desk.submit(found[1], request.key, body)
        if request.path == "/undos":
            return await self.desk.undo(request.key, body)
        if found := CONTROL.fullmatch(request.path):
            return await self._control(found[1], body)
        return error(404, "there is nothing here")

    async def _control(self, verb: str, body: dict[str, Any]) -> Response:
        point, match = str(body.get("point", "")), str(body.get("match", ANY))
        try:
            match verb:
                case "hold":
                    self.holds.add(point, match)
                    return Response(200, {})
                case "wait":
                    return await self._wait(point, match, body)
                case "release":
                    return Response(200, {"released": self.holds.release(point, match)})
                case "misbehave":
                    self.desk.misbehave(body)
                    return Response(200, {})
                case "settled":
                    return await self._settled(match, body)
                case _:
                    self.desk.reset()
                    return Response(200, {})
        except (KeyError, ValueError) as problem:
            return error(400, str(problem.args[0]))
        except HeldTooLong as problem:
            return error(409, str(problem))

    async def _wait(self, point: str, match: str, body: dict[str, Any]) -> Response:
        held = await self.holds.wait(point, match, count=int(body.get("count", 1)), seconds=_patience(body))
        return Response(200, {"held": held}) if held is not None else error(504, "nobody came in time")

    async def _settled(self, match: str, body: dict[str, Any]) -> Response:
        effects = await self.desk.settled(match, seconds=_patience(body))
        return (
            Response(200, {"effects": [_row(effect) for effect in effects]}) if effects else error(504, "not settled")
        )

    def _told(self, request: Request) -> Response:
        if request.path == "/ledger.css":
            return Response(200, STYLE, {"cache-control": "max-age=60"}, "text/css; charset=utf-8")
        keys = [key for given in request.query.get("keys", []) for key in given.split(",") if key]
        label = "".join(request.query.get("task", [])[:1])
        effects = self.ledger.effects(keys=keys, label=label)
        counts = self.ledger.counts()
        if request.path == "/":
            return Response(
                200, page(effects, counts, label=label), {"content-security-policy": CSP}, "text/html; charset=utf-8"
            )
        return Response(200, {"effects": [_row(effect) for effect in effects], "counts": counts})


def _linked(response: Response, host: str) -> Response:
    """With the whole address of what was made, where the body tells one: a person can follow it."""
    result = response.body.get("result") if isinstance(response.body, dict) else None
    if not isinstance(result, dict) or not str(result.get("link", "")).startswith("/") or not host:
        return response
    body = {**response.body, "result": {**result, "link": f"http://{host}{result['link']}"}}
    return replace(response, body=body)


def _patience(body: dict[str, Any]) -> float:
    return min(float(body.get("seconds", LONGEST_WAIT)), LONGEST_WAIT)


def _row(effect: Effect) -> dict[str, Any]:
    return {**effect.as_json(), "state": effect.state, "switches": effect.switches.as_json()}


async def _read(scope: Scope, receive: Receive) -> Request:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > BODY_LIMIT:
            body, more = b"too long", False
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return Request(scope["method"], scope["path"], query, headers, body)


async def _write(send: Send, response: Response) -> None:
    body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
    headers = {
        "content-type": response.kind,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **response.headers,
    }
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
