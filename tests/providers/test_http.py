"""The HTTP provider against real sockets: bodies, requests, references, look-ups and cancels."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from agentstop.providers.http import HttpAction, HttpProvider
from agentstop.states import Claim, Source
from tests.providers.calls import ACTIONS, GUARD, closed_port, freely, job, json_reply, lowered, provider_at, said
from tests.providers.raw import OK, Connection, raw_server, saying, saying_once


@pytest.mark.asyncio
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

    async def test_json_that_was_cut_is_text_and_proves_no_success(self) -> None:
        """R14, R19: the word in it was "failed"."""
        answer = await said(json_reply(b'{"status": "failed", "more": 1}'), body_cap=20)
        assert (answer.claim, answer.unread) == (Claim.ACCEPTED, True)
        assert isinstance(answer.result, str)

    async def test_broken_characters_and_nul_are_replaced(self) -> None:
        answer = await said(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\xff\x00b")
        assert answer.body == "a��b"

    async def test_nul_and_lone_surrogates_inside_json_are_replaced(self) -> None:
        answer = await said(json_reply(rb'{"a\u0000": ["\ud800", "\u0000"]}'))
        assert answer.result == {"a�": ["?", "�"]}

    @pytest.mark.parametrize("content", [b"{nonsense", b"NaN", b"1e999", b"9" * 5000, b"[" * 100_000])
    async def test_nonsense_in_place_of_json_was_taken_and_its_text_is_for_people(self, content: bytes) -> None:
        """R19: a word for the state may be in it, so the status proves no success."""
        answer = await said(json_reply(content))
        assert (answer.claim, answer.unread, answer.result) == (Claim.ACCEPTED, True, content.decode())

    async def test_nothing_in_place_of_json_hides_no_word(self) -> None:
        answer = await said(json_reply(b""))
        assert (answer.claim, answer.unread, answer.result) == (Claim.SUCCEEDED, False, None)

    async def test_where_the_status_is_the_only_word_it_is_believed_whatever_the_body(self) -> None:
        answer = await said(json_reply(b"{nonsense"), actions={"job.create": HttpAction("/jobs", state_field="")})
        assert (answer.claim, answer.unread) == (Claim.SUCCEEDED, True)

    @pytest.mark.parametrize("kind", [b"text/html", b"application/octet-stream", b""])
    async def test_what_announces_no_json_is_a_text_and_a_result(self, kind: bytes) -> None:
        announced = b"Content-Type: " + kind + b"\r\n" if kind else b""
        answer = await said(b"HTTP/1.1 200 OK\r\n" + announced + b"Content-Length: 9\r\n\r\n{nonsense")
        assert (answer.result, answer.unread) == ("{nonsense", False)

    async def test_json_of_another_type_is_text(self) -> None:
        assert (
            await said(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
        ).result == "{}"

    @pytest.mark.parametrize(
        ("kind", "claim"), [(b"text/plain", Claim.SUCCEEDED), (b"application/json", Claim.ACCEPTED)]
    )
    async def test_a_compressed_body_that_was_not_asked_for_is_not_unpacked(self, kind: bytes, claim: Claim) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\nContent-Type: "
        answer = await said(head + kind + b"\r\n\r\nzzzz")
        assert answer.claim is claim
        assert "gzip" in answer.body


@pytest.mark.asyncio
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
            answers = [await provider.submit(job(), freely()), await provider.cancel(job(ref="/x"), freely(1))]
        answers += [await said(reply, headers=secret) for reply in (b"", b"nonsense", OK)]
        assert "s3cret" not in repr(answers)

    @pytest.mark.parametrize("status", ["401 Unauthorized", "200 OK"])
    @pytest.mark.parametrize("kind", ["text/plain", "application/json"])
    async def test_a_login_that_the_server_says_again_is_masked(self, status: str, kind: str) -> None:
        """As in "Incorrect API key provided: …": kept, it would stand in the list, in exports and in the context."""
        body = b'{"error": "Incorrect API key provided: sk-s3cret/key", "sk-s3cret/key": ["Basic b64=="]}'
        reply = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        answer = await said(reply, headers={"X-Api-Key": "sk-s3cret/key", "Authorization": "Basic b64=="})
        assert "Incorrect API key provided: •••" in answer.body
        assert "sk-s3cret/key" not in f"{answer.body} {answer.result}"
        assert "b64==" not in f"{answer.body} {answer.result}"


@pytest.mark.asyncio
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
            reply = await provider.cancel(elsewhere, freely())
            assert await provider.look_up(elsewhere, deadline=GUARD) is None
            assert reply.claim is Claim.UNSENT
            assert "another origin" in reply.body
            assert ours.connections == other.connections == []

    async def test_an_unknown_reference_cannot_be_asked_about(self) -> None:
        async with provider_at(closed_port()) as provider:
            assert await provider.look_up(job(), deadline=GUARD) is None
            assert (await provider.cancel(job(), freely())).claim is Claim.UNSENT
            assert (await provider.cancel(job(action="page.get"), freely())).claim is Claim.UNSENT


@pytest.mark.asyncio
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
            assert (await provider.cancel(job(ref="/jobs/7"), freely())).claim is Claim.LOST
            assert server.connections[0].read.startswith(b"DELETE /jobs/7 HTTP/1.1")
        async with provider_at(closed_port()) as provider:
            assert (await provider.cancel(job(ref="/jobs/7"), freely())).claim is Claim.UNSENT


@pytest.mark.asyncio
async def test_closing_twice_or_before_use_is_harmless_and_a_later_call_opens_again() -> None:
    async with raw_server(saying(OK)) as server:
        provider = HttpProvider(base_url=server.address, actions=ACTIONS)
        await provider.aclose()
        for _ in range(2):
            assert (await provider.submit(job(), freely())).claim is Claim.SUCCEEDED
            await provider.aclose()
            await provider.aclose()


def test_a_provider_serves_one_loop_after_another() -> None:
    async def told() -> list[Claim]:
        async with raw_server(saying(OK)) as server:
            provider.base = httpx.URL(server.address)
            return [(await provider.submit(job(), freely())).claim for _ in range(2)]

    provider = HttpProvider(base_url=closed_port(), actions=ACTIONS)
    assert asyncio.run(told()) == asyncio.run(told()) == [Claim.SUCCEEDED] * 2
