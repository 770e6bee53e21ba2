"""Providers that can only be searched, and keys that are sent along in the body."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import reconcile, sending
from agentstop.models import Operation
from agentstop.providers.base import Answer, Capability, LookUp
from agentstop.providers.http import HttpAction
from agentstop.providers.http_action import with_field
from agentstop.runs import begin
from agentstop.states import Claim, OperationState, Source
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
HTTP = "agentstop.providers.http.HttpProvider"


@contextmanager
def replies(seen: list[str], *, hits: int) -> Iterator[str]:
    """A server that loses its answer to a post, and finds so many when it is searched."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append("POST")
            self.close_connection = True

        def do_GET(self) -> None:
            seen.append("GET")
            body = json.dumps({"items": [{"id": each, "status": "completed"} for each in range(hits)]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


async def found(reply: bytes) -> Answer | None:
    async with raw_server(saying(reply)) as server, provider_at(server.address, actions=ACTIONS) as provider:
        answer = await provider.look_up(job("k 1", action="message.post"), deadline=GUARD)
        assert server.connections[0].read.startswith(b"GET /messages?marker=k%201 HTTP/1.1")
        return answer


def listing(*items: dict[str, object]) -> bytes:
    return json_reply(json.dumps({"items": items}).encode())


@pytest.mark.asyncio
async def test_what_a_search_finds_alone_is_the_operations_own() -> None:
    answer = await found(listing({"id": 7, "status": "completed"}))
    assert answer is not None
    assert (answer.claim, answer.source, answer.ref) == (Claim.SUCCEEDED, Source.READ_BACK, "7")


@pytest.mark.asyncio
@pytest.mark.parametrize("other", ["completed", "failed"])
async def test_of_several_hits_none_is_believed(other: str) -> None:
    """R11, R16: which one is this operation's is not known; the first may be another's success, or its failure."""
    assert await found(listing({"id": 7, "status": "completed"}, {"id": 6, "status": other})) is None
    assert await found(listing({"id": 6, "status": other}, {"id": 7, "status": "completed"})) is None


@pytest.mark.django_db(transaction=True)
def test_a_search_with_several_hits_leaves_the_outcome_unknown(ann: User, settings: Settings) -> None:
    """R16, R20: the note is there twice, and neither is called this operation's."""
    seen: list[str] = []
    with replies(seen, hits=2) as address:
        settings.AGENTSTOP_CONNECTORS = {
            "notes": {"PROVIDER": HTTP, "OPTIONS": {"base_url": address, "actions": ACTIONS}}
        }
        run = begin("a task", owner=ann)
        assert run.call("message.post", {"text": "x"}, connector="notes", key="k").failed
        operation = Operation.objects.get(task=run.task_id)
        reconcile.look_up_now(operation.pk, by=ann)
        operation.refresh_from_db()
        assert (operation.state, "GET" in seen) == (OperationState.UNKNOWN, True)
    sending.close()


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
