"""What is proven unsent, and what is lost, is told by whether a byte left (R8, R12)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from agentstop.exceptions import PassExpired
from agentstop.providers.base import (
    Context,
    Submission,
)
from agentstop.states import Claim, Source
from tests.providers.calls import GUARD, VOID, closed_port, freely, job, provider_at, said
from tests.providers.raw import OK, Connection, raw_server, saying

pytestmark = pytest.mark.asyncio(loop_scope="function")


class TestBeforeTheWrite:
    async def test_no_byte_leaves_when_the_pass_is_void(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            with pytest.raises(PassExpired):
                await provider.submit(job(), VOID)
            assert await asyncio.wait_for(server.ended.get(), GUARD) == b""
            assert len(server.connections) == 1  # the check came after the connection stood

    async def test_no_cancel_request_leaves_when_its_time_is_over(self) -> None:
        async with raw_server(saying(OK)) as server, provider_at(server.address) as provider:
            with pytest.raises(PassExpired):
                await provider.cancel(job(ref="/jobs/7"), VOID)
            assert await asyncio.wait_for(server.ended.get(), GUARD) == b""

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
        """R43."""

        async def handler(connection: Connection) -> None:
            await connection.request()
            await connection.reader.read()

        async with raw_server(handler) as server, provider_at(server.address) as provider:
            answer = await provider.submit(job(), freely(deadline=0.2))
        assert answer.claim is Claim.LOST
        assert "deadline" in answer.body

    async def test_a_body_that_drips_past_the_deadline_is_lost(self) -> None:
        """R43."""

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
