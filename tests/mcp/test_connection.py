"""One connection for many tasks; the gate at its door; what HTTP servers do wrong."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop.exceptions import PassExpired
from agentstop.providers import mcp_tap
from agentstop.providers.base import Answer, Context, Submission
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.runs import begin
from agentstop.states import Claim
from agentstop.stop import stop
from agentstop.words.sentences import Label
from tests.conftest import HANG_GUARD, InThread
from tests.mcp.conftest import Referee
from tests.observed import of_key
from tests.providers.calls import closed_port
from tests.providers.raw import Connection, RawServer, raw_server, saying_once

TASKS = 50
KEY = "sk-s3cret-key"
SOME = [("stdio", "2025-11-25"), ("http", "2026-07-28")]
over_some = pytest.mark.parametrize("referee", SOME, ids=["stdio-2025", "http-2026"], indirect=True)


@pytest.mark.django_db(transaction=True)
@over_some
def test_one_of_many_tasks_on_a_connection_is_stopped_and_the_others_finish(
    referee: Referee, name: str, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """R30, R34: and the connection stays the same."""
    provider = referee.connect(settings, tools={"async_note": McpTool(cancel="ask")})
    runs = [begin(f"task {number}", owner=ann) for number in range(TASKS)]
    names = [f"{name}-{number}" for number in range(TASKS)]
    callers = [
        in_thread(run.call, "async_note", {"name": each}, connector="mcp", key="k", deadline=HANG_GUARD)
        for run, each in zip(runs, names, strict=True)
    ]
    for each in names:
        referee.wait_for("began", each)
    link = provider._link
    stop(runs[7].task_id, by=ann)
    assert callers[7].result(HANG_GUARD).ignored
    referee.wait_for("gave-up", names[7])
    for each in names:
        referee.go(each)
    others = [caller.result(HANG_GUARD) for number, caller in enumerate(callers) if number != 7]
    assert [outcome.accepted for outcome in others] == [True] * (TASKS - 1)
    assert provider._link is link and link is not None and link.usable
    assert of_key(runs[7].task_id, "k").label in (Label.UNKNOWN, Label.STILL_ACTIVE)
    assert all(referee.did(each) == ["began", "did"] for number, each in enumerate(names) if number != 7)


class Heard(list[Answer]):
    """What a provider hands in besides its answer."""


def submission(tool: str, key: str = "key-1", **arguments: Any) -> Submission:
    return Submission(1, tool, arguments, key)


def context(heard: Heard | None = None, *, before_write: Any = lambda: None, deadline: float = HANG_GUARD) -> Context:
    told = heard if heard is not None else Heard()
    return Context(before_write=before_write, deadline=deadline, heard=told.append)


@pytest.mark.asyncio
class TestTheDoor:
    async def test_the_server_is_told_operation_key_and_attempt(self, referee: Referee) -> None:
        provider = McpProvider(**referee.way)
        answer = await provider.submit(submission("told"), context())
        await provider.aclose()
        assert isinstance(answer.result, dict)
        names = ["agentstop/operation", "agentstop/idempotency-key", "agentstop/attempt"]
        assert [answer.result[each] for each in names] == ["1", "key-1", "1"]

    @over_some
    async def test_a_pass_that_is_over_sends_nothing_and_closes_nothing(self, referee: Referee, name: str) -> None:
        """R7, R8: tested as the first byte is about to leave."""

        def over() -> None:
            raise PassExpired("too old")

        provider = McpProvider(**referee.way)
        with pytest.raises(PassExpired):
            await provider.submit(submission("quick", name=name), context(before_write=over))
        later = await provider.submit(submission("quick", "key-2", name=f"{name}-2"), context())
        await provider.aclose()
        assert later.claim is Claim.SUCCEEDED
        assert (referee.did(name), referee.did(f"{name}-2")) == ([], ["did"])

    async def test_the_key_goes_into_the_argument_that_the_tool_takes_it_in(self, referee: Referee) -> None:
        provider = McpProvider(**referee.way, tools={"quick": McpTool(key_argument="name")})
        answer = await provider.submit(submission("quick", "my-key"), context())
        await provider.aclose()
        assert answer.body.count("noted my-key")

    @over_some
    async def test_an_error_of_a_tool_may_come_after_its_effect(self, referee: Referee, name: str) -> None:
        """R19: a crash half-way looks the same as an argument that was turned down."""
        provider = McpProvider(**referee.way)
        answer = await provider.submit(submission("broken", name=name), context())
        await provider.aclose()
        assert (answer.claim, referee.did(name)) == (Claim.LOST, ["did"])

    @over_some
    async def test_nothing_is_left_of_calls_that_nobody_waits_for(self, referee: Referee, name: str) -> None:
        """R43: neither here nor in the SDK."""
        provider = McpProvider(**referee.way, keep_late=0.001)
        for number in range(30):
            waiting = asyncio.ensure_future(
                provider.submit(submission("async_note", f"key-{number}", name=f"{name}{number}"), context())
            )
            await asyncio.to_thread(referee.wait_for, "began", f"{name}{number}")
            waiting.cancel()
            await asyncio.wait({waiting})
        await asyncio.sleep(0.01)
        assert (await provider.submit(submission("quick", name=name), context())).claim is Claim.SUCCEEDED
        link = provider._link
        assert link is not None and link.client is not None
        await asyncio.sleep(0.01)
        link.let_go(link.calls.left_behind(0.001))
        for _ in range(5):
            await asyncio.sleep(0)
        held = link.client.session._dispatcher
        await provider.aclose()
        assert (link.calls.all(), getattr(held, "_pending", {})) == ([], {})


def reply(body: dict[str, Any], *, status: str = "200 OK", more: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


async def said(answer: bytes, **options: Any) -> tuple[Answer, RawServer]:
    """What becomes of a call that an HTTP server answers with these bytes, whatever it was asked before."""
    async with raw_server(saying_once(answer)) as server:
        provider = McpProvider(url=f"{server.address}/mcp", revision="2026-07-28", **options)
        heard = await provider.submit(submission("note", text="x"), context())
        await provider.aclose()
        return heard, server


async def turns_down(connection: Connection) -> None:
    """Says the key again, of whatever it is asked."""
    while asked := await connection.request():
        body = json.loads(asked.partition(b"\r\n\r\n")[2] or b"{}")
        error = {"code": -32001, "message": f"Incorrect API key provided: {KEY}", "data": {"key": KEY}}
        await connection.say(reply({"jsonrpc": "2.0", "id": body.get("id"), "error": error}, status="401 Unauthorized"))


@pytest.mark.asyncio
class TestHttp:
    @pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
    @pytest.mark.parametrize("masked", [True, False])
    async def test_a_login_that_the_server_says_again_is_neither_kept_nor_logged(
        self, revision: str, masked: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not masked:
            monkeypatch.setattr(mcp_tap.Tap, "masked", lambda tap, message: message)
        async with raw_server(turns_down) as server:
            headers = {"Authorization": f"Bearer {KEY}"}
            provider = McpProvider(url=f"{server.address}/mcp", revision=revision, headers=headers)
            heard = await provider.submit(submission("note"), context())
            await provider.aclose()
        assert "Incorrect API key provided" in heard.body
        assert (KEY in f"{heard.body} {caplog.text}") is not masked

    async def test_no_connection_is_proven_unsent(self) -> None:
        """R12."""
        for address in (closed_port(), "http://no-such-host.invalid"):
            provider = McpProvider(url=f"{address}/mcp", revision="2026-07-28")
            answer = await provider.submit(submission("note"), context())
            await provider.aclose()
            assert answer.claim is Claim.UNSENT

    async def test_tls_that_fails_is_proven_unsent(self) -> None:
        """R12: a server that speaks no TLS, and no byte of the call is said to it."""

        async def plain(connection: Connection) -> None:
            await connection.say(b"HTTP/1.1 400 No\r\n\r\n")
            await connection.request()

        async with raw_server(plain) as server:
            address = server.address.replace("http:", "https:")
            provider = McpProvider(
                url=f"{address}/mcp", revision="2026-07-28", headers={"Authorization": "Bearer secret"}
            )
            answer = await provider.submit(submission("note"), context())
            await provider.aclose()
            assert answer.claim is Claim.UNSENT
            assert not any(b"secret" in each.read for each in server.connections) and "secret" not in answer.body

    @pytest.mark.parametrize(
        "answer, claim",
        [
            (b"", Claim.LOST),
            (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{", Claim.LOST),
            (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n", Claim.LOST),
            (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", Claim.LOST),
            (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", Claim.LOST),
            (b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n", Claim.LOST),
            (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", Claim.REFUSED),
            (b"HTTP/1.1 302 Found\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n", Claim.LOST),
            (b"HTTP/1.1 307 Again\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n", Claim.LOST),  # a loop
        ],
        ids=["reset", "cut", "empty stream", "accepted", "bad gateway", "too many", "unauthorized", "found", "loop"],
    )
    async def test_what_a_reply_proves(self, answer: bytes, claim: Claim) -> None:
        heard, _ = await said(answer)
        assert heard.claim is claim

    async def test_a_redirect_to_another_host_gets_neither_key_nor_headers(self) -> None:
        async with raw_server(saying_once(b"")) as other:
            away = f"HTTP/1.1 307 Away\r\nLocation: {other.address}/mcp\r\nContent-Length: 0\r\n\r\n".encode()
            heard, _ = await said(away, headers={"Authorization": "Bearer secret"})
            assert (heard.claim, other.connections) == (Claim.LOST, [])
            assert "secret" not in heard.body

    async def test_a_reply_that_is_too_large_is_not_read_to_its_end(self) -> None:
        body = {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "x" * 500_000}]}}
        heard, _ = await said(reply(body), body_cap=100_000)
        assert heard.claim is Claim.LOST
        assert len(heard.body) < 10_000


def test_what_is_configured_wrongly_is_said_in_one_sentence() -> None:
    for options, wrong in (
        ({}, "one of url=, command= and server="),
        ({"url": "http://a", "command": ["b"]}, "one of url=, command= and server="),
        ({"command": "python server.py"}, "pass a list"),
        ({"url": "ftp://a"}, "http or https"),
        ({"url": "http://me:secret@a"}, "credentials go into headers"),
        ({"url": "http://a", "revision": "1999-01-01"}, "revision"),
        ({"url": "http://a", "tools": {"x": McpTool(cancel="perhaps")}}, "cancel='perhaps'"),
        ({"url": "http://a", "tools": {"x": McpTool(ttl=5.0)}}, "task=True"),
        ({"url": "http://a", "keep_late": 0}, "above 0"),
    ):
        with pytest.raises(Exception, match=wrong) as error:
            McpProvider(**options)
        assert "secret" not in str(error.value)


def test_without_the_package_the_connector_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == "mcp" or name.startswith("agentstop.providers.mcp")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(Exception, match=r"pip install 'agentstop\[mcp\]'"):
        __import__("agentstop.providers.mcp")
