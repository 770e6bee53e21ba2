"""Providers that can only be searched, and keys that are sent along in the body."""

from __future__ import annotations

import json

import pytest

from agentstop.providers.base import Answer, Capability, LookUp
from agentstop.providers.http import HttpAction
from agentstop.providers.http_action import with_field
from agentstop.states import Claim, Source
from tests.providers.calls import GUARD, freely, job, json_reply, provider_at
from tests.providers.raw import OK, raw_server, saying

SEARCHED = HttpAction(
    "/messages",
    look_up_path="/messages?marker={key}",
    key_field="metadata.marker",
    found_field="items",
    ref_field="id",
    capability=Capability(look_up=LookUp.SEARCH),
)
ACTIONS = {"message.post": SEARCHED}


async def found(reply: bytes) -> Answer | None:
    async with raw_server(saying(reply)) as server, provider_at(server.address, actions=ACTIONS) as provider:
        answer = await provider.look_up(job("k 1", action="message.post"), deadline=GUARD)
        assert server.connections[0].read.startswith(b"GET /messages?marker=k%201 HTTP/1.1")
        return answer


@pytest.mark.asyncio
async def test_what_a_search_finds_is_the_first_of_its_list() -> None:
    items = [{"id": 7, "status": "completed"}, {"id": 6, "status": "failed"}]
    answer = await found(json_reply(json.dumps({"items": items}).encode()))
    assert answer is not None
    assert (answer.claim, answer.source, answer.ref) == (Claim.SUCCEEDED, Source.READ_BACK, "7")


@pytest.mark.asyncio
async def test_an_empty_list_is_absence_that_proves_nothing_unless_it_is_claimed() -> None:
    answer = await found(json_reply(b'{"items": []}'))
    assert answer is not None
    assert (answer.claim, answer.authoritative) == (Claim.NOT_FOUND, False)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "reply", [json_reply(b'{"items": 3}'), json_reply(b"[]"), b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]
)
async def test_a_search_that_answers_otherwise_says_nothing(reply: bytes) -> None:
    assert await found(reply) is None


@pytest.mark.asyncio
async def test_the_key_is_sent_along_in_the_body() -> None:
    async with raw_server(saying(OK)) as server, provider_at(server.address, actions=ACTIONS) as provider:
        await provider.submit(job("k-1", action="message.post", metadata={"a": 1}, text="x"), freely())
        _, _, body = server.connections[0].read.partition(b"\r\n\r\n")
    assert json.loads(body) == {"metadata": {"a": 1, "marker": "k-1"}, "text": "x"}


def test_a_field_may_lead_through_what_is_no_object() -> None:
    assert with_field({"a": 1}, "a.b", "k") == {"a": {"b": "k"}}
