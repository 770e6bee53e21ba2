"""The HTTP provider against real sockets: what it claims is what the bytes prove."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

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
from agentstop.states import Claim, Source
from tests.providers.raw import OK, Connection, RawServer, raw_server, saying, saying_once

pytestmark = pytest.mark.asyncio(loop_scope="function")

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


class TestBeforeTheWrite:
    async def test_no_byte_leaves_when_the_pass_is_void(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            with pytest.raises(PassExpired):
                await provider.submit(job(), VOID)
            assert await asyncio.wait_for(server.ended.get(), GUARD) == b""
            assert len(server.connections) == 1  # the check came after the connection stood

    async def test_no_byte_leaves_on_a_reused_connection_when_the_pass_is_void(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address, keep_alive=True) as provider:
            first = await provider.submit(job(), freely())
            with pytest.raises(PassExpired):
                await provider.submit(job("k-2"), VOID)
            read = await asyncio.wait_for(server.ended.get(), GUARD)
            assert first.claim is Claim.SUCCEEDED
            assert read.count(b"POST ") == 1
            assert len(server.connections) == 1

    async def test_a_void_pass_leaves_the_next_request_and_one_in_flight_unharmed(self) -> None:
        arrived, go = asyncio.Event(), asyncio.Event()

        async def handler(connection: Connection) -> None:
            while request := await connection.request():
                if b"slow" in request:
                    arrived.set()
                    await go.wait()
                await connection.say(OK)

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            slow = asyncio.create_task(provider.submit(job("slow"), freely()))
            await asyncio.wait_for(arrived.wait(), GUARD)
            with pytest.raises(PassExpired):
                await provider.submit(job("void"), VOID)
            after = await provider.submit(job("next"), freely())
            go.set()
            assert after.claim is Claim.SUCCEEDED
            assert (await slow).claim is Claim.SUCCEEDED

    async def test_a_void_pass_frees_its_place_in_the_pool(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address, max_connections=1) as provider:
            for _ in range(3):
                with pytest.raises(PassExpired):
                    await provider.submit(job(), VOID)
            assert (await provider.submit(job(), freely())).claim is Claim.SUCCEEDED

    async def test_the_pass_is_asked_once_for_each_submit_and_never_without_a_connection(self) -> None:
        asked: list[str] = []
        context = Context(before_write=lambda: asked.append("asked"), deadline=GUARD)
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            await provider.submit(job(), context)
            await provider.submit(job(), context)
        async with provider_at(closed_port()) as provider:
            await provider.submit(job(), context)
        assert asked == ["asked", "asked"]

    async def test_any_other_error_of_the_check_is_unsent(self) -> None:
        def broken() -> None:
            raise ZeroDivisionError

        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            answer = await provider.submit(job(), Context(before_write=broken, deadline=GUARD))
            assert answer.claim is Claim.UNSENT
            assert await asyncio.wait_for(server.ended.get(), GUARD) == b""


class TestUnsent:
    async def test_a_refused_connection_is_unsent(self) -> None:
        async with provider_at(closed_port()) as provider:
            answer = await provider.submit(job(), freely())
        assert (answer.claim, answer.source) == (Claim.UNSENT, Source.SENDER)
        assert "no connection" in answer.body

    async def test_a_name_that_does_not_resolve_is_unsent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nobody(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", nobody)
        async with provider_at("http://provider.test") as provider:
            assert (await provider.submit(job(), freely())).claim is Claim.UNSENT

    async def test_a_failed_tls_handshake_is_unsent(self) -> None:
        async def plain(connection: Connection) -> None:
            await connection.reader.read(1)
            await connection.say(b"HTTP/1.1 400 no TLS here\r\n\r\n")

        async with raw_server(plain) as server, provider_at(f"https://127.0.0.1:{server.port}") as provider:
            assert (await provider.submit(job(), freely())).claim is Claim.UNSENT

    async def test_a_deadline_that_passes_before_the_handshake_ends_is_unsent(self) -> None:
        async def silent(connection: Connection) -> None:
            await connection.reader.read()

        async with raw_server(silent) as server, provider_at(f"https://127.0.0.1:{server.port}") as provider:
            assert (await provider.submit(job(), freely(deadline=0.2))).claim is Claim.UNSENT

    async def test_waiting_for_a_free_connection_until_the_deadline_is_unsent(self) -> None:
        arrived, go = asyncio.Event(), asyncio.Event()

        async def handler(connection: Connection) -> None:
            await connection.request()
            arrived.set()
            await go.wait()
            await connection.say(OK)

        async with raw_server(handler) as server, provider_at(server.address, max_connections=1) as provider:
            first = asyncio.create_task(provider.submit(job("first"), freely()))
            await asyncio.wait_for(arrived.wait(), GUARD)
            second = await provider.submit(job("second"), freely(deadline=0.1))
            go.set()
            assert second.claim is Claim.UNSENT
            assert (await first).claim is Claim.SUCCEEDED

    @pytest.mark.parametrize(
        ("submission", "why"),
        [
            (job(action="file.put", folder="a", name=".."), "names nothing"),
            (job(action="file.put", folder="a"), "needs the argument 'name'"),
            (job(action="job.drop"), "no action 'job.drop'"),
            (job("key\r\nX-Evil: 1"), "cannot stand in a header"),
            (job(thing=object()), "not JSON serializable"),
            (job(number=float("nan")), "not JSON compliant"),
        ],
    )
    async def test_a_request_that_cannot_be_made_is_unsent_and_says_why(self, submission: Submission, why: str) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            answer = await provider.submit(submission, freely())
            assert answer.claim is Claim.UNSENT
            assert why in answer.body
            assert server.connections == []


class TestLost:
    @pytest.mark.parametrize(
        "reply",
        [
            pytest.param(b"", id="closed without an answer"),
            pytest.param(b"\x00\xff nonsense\r\n\r\n", id="not HTTP"),
            pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", id="shorter than it says"),
            pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", id="length that is no number"),
            pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", id="chunk that breaks off"),
            pytest.param(b"HTTP/1.1 200 OK\r\nContent-", id="headers that break off"),
            pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", id="headers without end"),
            pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", id="another protocol"),
        ],
    )
    async def test_no_usable_answer_after_the_write_is_lost(self, reply: bytes) -> None:
        assert (await said(reply)).claim is Claim.LOST

    async def test_a_reset_after_the_write_is_lost(self) -> None:
        async def handler(connection: Connection) -> None:
            await connection.request()
            connection.reset()

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            answer = await provider.submit(job(), freely())
        assert (answer.claim, answer.source) == (Claim.LOST, Source.SENDER)

    async def test_silence_until_the_deadline_is_lost(self) -> None:
        async def handler(connection: Connection) -> None:
            await connection.request()
            await connection.reader.read()

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            answer = await provider.submit(job(), freely(deadline=0.2))
        assert answer.claim is Claim.LOST
        assert "deadline" in answer.body

    async def test_a_body_that_drips_past_the_deadline_is_lost(self) -> None:
        async def handler(connection: Connection) -> None:
            await connection.request()
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                await connection.say(b".")
                await asyncio.sleep(0.02)  # the drip itself, no synchronisation

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            assert (await provider.submit(job(), freely(deadline=0.3))).claim is Claim.LOST

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_no_outcome_and_is_not_followed(self, status: int) -> None:
        reply = f"HTTP/1.1 {status} Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_server(saying(reply)) as server, provider_at(server.address) as provider:
            answer = await provider.submit(job(), freely())
            assert answer.claim is Claim.LOST
            assert [connection.read.count(b"HTTP/1.1") for connection in server.connections] == [1]

    async def test_a_cancelled_caller_leaves_the_pool_healthy(self) -> None:
        arrived = asyncio.Event()

        async def handler(connection: Connection) -> None:
            while request := await connection.request():
                if b"slow" in request:
                    arrived.set()
                    await connection.reader.read()
                await connection.say(OK)

        async with raw_server(handler) as server, provider_at(server.address, max_connections=1) as provider:
            task = asyncio.create_task(provider.submit(job("slow"), freely()))
            await asyncio.wait_for(arrived.wait(), GUARD)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await provider.submit(job("next"), freely())).claim is Claim.SUCCEEDED

    async def test_bytes_behind_a_reply_never_become_the_answer_to_another_request(self) -> None:
        smuggled = OK + b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\nfor two"

        async def handler(connection: Connection) -> None:
            while request := await connection.request():
                await connection.say(smuggled if b"one" in request else b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            first = await provider.submit(job("one"), freely())
            second = await provider.submit(job("two"), freely())
        assert first.claim is Claim.SUCCEEDED
        assert second.claim is Claim.REFUSED


class TestBodies:
    async def test_an_endless_body_is_cut_and_marked(self) -> None:
        async def handler(connection: Connection) -> None:
            await connection.request()
            await connection.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                await connection.say(b"x" * 65536)

        async with raw_server(handler) as server, provider_at(server.address, body_cap=1000) as provider:
            answer = await provider.submit(job(), freely())
            await asyncio.wait_for(server.ended.get(), GUARD)  # the connection was given up
        assert answer.claim is Claim.SUCCEEDED
        assert answer.body == "x" * 1000 + "\n[cut after 1000 bytes]"

    async def test_a_body_of_exactly_the_cap_is_whole(self) -> None:
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Type: application/json\r\n\r\n[12]"
        assert (await said(reply, body_cap=4)).result == [12]

    async def test_json_that_was_cut_is_text(self) -> None:
        answer = await said(json_reply(b'{"status": "failed", "more": 1}'), body_cap=20)
        assert answer.claim is Claim.SUCCEEDED
        assert isinstance(answer.result, str)

    async def test_broken_characters_and_nul_are_replaced(self) -> None:
        answer = await said(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\xff\x00b")
        assert answer.body == "a��b"

    async def test_nul_and_lone_surrogates_inside_json_are_replaced(self) -> None:
        answer = await said(json_reply(rb'{"a\u0000": ["\ud800", "\u0000"]}'))
        assert answer.result == {"a�": ["?", "�"]}

    @pytest.mark.parametrize("content", [b"{nonsense", b"NaN", b"1e999", b"9" * 5000, b"[" * 100_000, b""])
    async def test_nonsense_in_place_of_json_is_still_a_success_with_text(self, content: bytes) -> None:
        answer = await said(json_reply(content))
        assert answer.claim is Claim.SUCCEEDED
        assert answer.result == (content.decode() or None)

    async def test_json_of_another_type_is_text(self) -> None:
        assert (
            await said(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
        ).result == "{}"

    async def test_a_compressed_body_that_was_not_asked_for_is_not_unpacked(self) -> None:
        answer = await said(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzzzz")
        assert answer.claim is Claim.SUCCEEDED
        assert "gzip" in answer.body


class TestRequests:
    @pytest.mark.parametrize(
        ("style", "key", "sent"),
        [
            ("bare", "k-1", b"idempotency-key: k-1\r\n"),
            ("quoted", "k-1", b'idempotency-key: "k-1"\r\n'),
            ("quoted", 'a"b\\c', b'idempotency-key: "a\\"b\\\\c"\r\n'),
        ],
    )
    async def test_the_idempotency_key_is_sent_in_the_form_of_the_provider(
        self, style: str, key: str, sent: bytes
    ) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address, idempotency_format=style) as provider:
            await provider.submit(job(key), freely())
            assert sent in lowered(server)

    async def test_an_action_that_does_not_honour_the_key_does_not_get_it(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            await provider.submit(job(action="page.get", q="a b"), freely())
            assert b"idempotency-key" not in lowered(server)
            assert server.connections[0].read.startswith(b"GET /pages?q=a")

    async def test_fields_of_the_path_are_quoted_and_the_rest_is_the_body(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address + "/v1/") as provider:
            await provider.submit(job(action="file.put", folder="a/b?c", name="ü", size=3), freely())
            head, _, body = server.connections[0].read.partition(b"\r\n\r\n")
        assert head.startswith(b"PUT /v1/files/a%2Fb%3Fc/%C3%BC HTTP/1.1")
        assert json.loads(body) == {"size": 3}

    async def test_cookies_of_one_request_do_not_travel_with_the_next(self) -> None:
        reply = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=ann\r\nContent-Length: 0\r\n\r\n"
        async with raw_server(saying(reply)) as server, provider_at(server.address) as provider:
            await provider.submit(job(), freely())
            await provider.submit(job(), freely())
            assert b"cookie:" not in lowered(server)

    @pytest.mark.parametrize(("keep_alive", "connections"), [(False, 3), (True, 1)])
    async def test_a_connection_carries_one_request_unless_it_is_kept_alive(
        self, keep_alive: bool, connections: int
    ) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address, keep_alive=keep_alive) as provider:
            for _ in range(3):
                await provider.submit(job(), freely())
            assert len(server.connections) == connections

    async def test_secrets_in_headers_are_in_no_answer(self) -> None:
        secret = {"Authorization": "Bearer s3cret"}
        async with provider_at(closed_port(), headers=secret) as provider:
            answers = [await provider.submit(job(), freely()), await provider.cancel(job(ref="/x"), deadline=1)]
        answers += [await said(reply, headers=secret) for reply in (b"", b"nonsense", OK)]
        assert "s3cret" not in repr(answers)


class TestReferences:
    @pytest.mark.parametrize(
        ("location", "ref"),
        [
            ("/jobs/7", "/jobs/7"),
            ("7?x=1#part", "/7?x=1"),
            ("http://other.example/jobs/7", "http://other.example/jobs/7"),
            ("http://x:port/", ""),
            ("/" + "x" * 3000, ""),
        ],
    )
    async def test_the_location_becomes_the_reference(self, location: str, ref: str) -> None:
        reply = f"HTTP/1.1 202 Accepted\r\nLocation: {location}\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n"
        answer = await said(reply.encode())
        assert (answer.claim, answer.ref, answer.retry_after) == (Claim.ACCEPTED, ref, 3.0)

    async def test_a_location_with_our_own_address_is_the_same_reference_as_its_path(self) -> None:
        async def handler(connection: Connection) -> None:
            await connection.request()
            here = f"http://127.0.0.1:{server.port}/jobs/7"
            await connection.say(f"HTTP/1.1 202 Accepted\r\nLocation: {here}\r\nContent-Length: 0\r\n\r\n".encode())

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            assert (await provider.submit(job(), freely())).ref == "/jobs/7"

    async def test_a_reference_on_another_origin_is_asked_nothing_and_gets_no_header(self) -> None:
        async with (
            raw_server(saying(OK)) as ours,
            raw_server(saying(OK)) as other,
            provider_at(ours.address) as provider,
        ):
            elsewhere = job(ref=f"{other.address}/jobs/7")
            reply = await provider.cancel(elsewhere, deadline=GUARD)
            assert await provider.look_up(elsewhere, deadline=GUARD) is None
            assert reply.claim is Claim.UNSENT
            assert "another origin" in reply.body
            assert ours.connections == other.connections == []

    async def test_an_unknown_reference_cannot_be_asked_about(self) -> None:
        async with provider_at(closed_port()) as provider:
            assert await provider.look_up(job(), deadline=GUARD) is None
            assert (await provider.cancel(job(), deadline=GUARD)).claim is Claim.UNSENT
            assert (await provider.cancel(job(action="page.get"), deadline=GUARD)).claim is Claim.UNSENT


class TestLookUpsAndCancels:
    async def test_a_look_up_by_reference_carries_it_in_its_answer(self) -> None:
        async with (
            raw_server(saying(json_reply(b'{"status": "Running"}'))) as server,
            provider_at(server.address) as provider,
        ):
            answer = await provider.look_up(job(ref="/jobs/7"), deadline=GUARD)
            assert server.connections[0].read.startswith(b"GET /jobs/7 HTTP/1.1")
        assert answer is not None
        assert (answer.claim, answer.source, answer.ref) == (Claim.RUNNING, Source.READ_BACK, "/jobs/7")

    async def test_a_look_up_without_a_usable_answer_is_none(self) -> None:
        for reply in (b"", b"nonsense", b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"):
            async with raw_server(saying_once(reply)) as server, provider_at(server.address) as provider:
                assert await provider.look_up(job(ref="/jobs/7"), deadline=GUARD) is None

    async def test_a_cancel_without_an_answer_is_lost_and_without_a_connection_unsent(self) -> None:
        async with raw_server(saying_once(b"")) as server, provider_at(server.address) as provider:
            assert (await provider.cancel(job(ref="/jobs/7"), deadline=GUARD)).claim is Claim.LOST
            assert server.connections[0].read.startswith(b"DELETE /jobs/7 HTTP/1.1")
        async with provider_at(closed_port()) as provider:
            assert (await provider.cancel(job(ref="/jobs/7"), deadline=GUARD)).claim is Claim.UNSENT


async def test_closing_twice_or_before_use_is_harmless_and_a_later_call_opens_again() -> None:
    async with raw_server(saying(OK)) as server:
        provider = HttpProvider(base_url=server.address, actions=ACTIONS)
        await provider.aclose()
        for _ in range(2):
            assert (await provider.submit(job(), freely())).claim is Claim.SUCCEEDED
            await provider.aclose()
            await provider.aclose()


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
