"""Gated clients in coroutines: receipts survive the caller, and connections stay on their loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import httpx2
import pytest
from django.contrib.auth.models import User

from agentstop.dispatched import Dispatched
from agentstop.exceptions import Stale, Stopped
from agentstop.integrations.http.for_httpx import AsyncGatedTransport
from agentstop.integrations.http.for_httpx2 import AsyncGatedTransport as AsyncGatedTransport2
from agentstop.integrations.http.scope import through
from agentstop.runs import Run, begin
from agentstop.stop import astop
from tests.conftest import HANG_GUARD
from tests.counted import eventually, left_over
from tests.integrations.http.server import Reply, Server
from tests.observed import of_key

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(ann: User) -> Run:
    return begin("charge", owner=ann)


def client(server: Server, kind: Any = httpx, connector: str = "keyed") -> Any:
    gated = {httpx: AsyncGatedTransport, httpx2: AsyncGatedTransport2}[kind](connector)
    return kind.AsyncClient(transport=gated, base_url=server.address)


@pytest.mark.parametrize("kind", [httpx, httpx2])
def test_writes_and_reads_of_many_tasks_at_once(ann: User, server: Server, kind: Any) -> None:
    runs = [begin(f"task {number}", owner=ann) for number in range(8)]

    async def main() -> list[int]:
        async with client(server, kind) as http:

            async def one(run: Run) -> int:
                with through(run, key="k"):
                    written = await http.post("/charges", json={"task": run.task_id})
                read = await http.get("/charges")
                return int(written.status_code + read.status_code)

            return await asyncio.gather(*map(one, runs))

    assert asyncio.run(main()) == [400] * 8
    assert len(server.writes) == len({each.key for each in server.writes}) == 8
    assert [of_key(run.task_id, "k").state for run in runs] == ["succeeded"] * 8
    eventually(left_over, {})


def test_a_receipt_survives_that_its_caller_is_cancelled(run: Run, server: Server) -> None:
    go = threading.Event()
    server.script = [Reply(201, {"id": 7}, wait=go)]

    async def main() -> None:
        async with client(server) as http:
            with through(run, key="k"):
                writing = asyncio.ensure_future(http.post("/charges"))
            await asyncio.to_thread(server.wait)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing

    asyncio.run(main())  # the client is closed, and its loop is gone
    go.set()
    eventually(lambda: of_key(run.task_id, "k").state, "succeeded")
    assert len(server.writes) == 1


def test_a_stop_frees_the_caller_and_the_next_write_is_refused(run: Run, server: Server) -> None:
    go = threading.Event()
    server.script = [Reply(201, {"id": 7}, wait=go), Reply()]

    async def main() -> None:
        async with client(server) as http:
            with through(run, key="k"):
                writing = asyncio.ensure_future(http.post("/charges"))
            await asyncio.to_thread(server.wait)
            await astop(run.task_id)
            with pytest.raises(Stale):
                await asyncio.wait_for(writing, HANG_GUARD)
            go.set()
            with through(run, key="l"), pytest.raises(Stopped):
                await http.post("/charges")
            assert (await http.get("/charges")).status_code == 200

    asyncio.run(main())
    eventually(lambda: of_key(run.task_id, "k").label, "completed_before")
    assert (len(server.writes), run.context()) == (1, [])


def test_a_lost_answer_is_asked_for_again_and_not_after_a_stop(run: Run, server: Server) -> None:
    server.script = [Reply(500), Reply(500), Reply()]

    async def main() -> None:
        async with client(server) as http:
            with through(run, key="k"):
                assert (await http.post("/charges")).status_code == 500
                assert (await http.post("/charges")).status_code == 500
                await astop(run.task_id)
                with pytest.raises(Stopped):
                    await http.post("/charges")

    asyncio.run(main())
    assert len(server.writes) == 2


def test_within_an_operation_of_a_coroutine_each_send_asks_its_pass(run: Run, server: Server) -> None:
    server.script = [Reply(500), Reply(201, {"id": 7})]

    async def charge(op: Dispatched) -> Any:
        async with client(server) as http:
            with through(op):
                await http.post("/charges")
                return (await http.post("/charges")).json()

    outcome = asyncio.run(run.acall("charge", connector="keyed", key="k", send=charge))
    assert (outcome.accepted, outcome.result) == (True, {"id": 7})
    assert len(server.writes) == 2


class Streaming:
    """Chunks that come one after another, each when it is asked for."""

    def __init__(self, chunks: int) -> None:
        self.left = chunks

    async def __aiter__(self) -> Any:
        while self.left:
            self.left -= 1
            yield b"x"


def test_a_body_that_is_streamed_is_read_before_it_is_sent(run: Run, server: Server) -> None:
    async def main() -> int:
        async with client(server) as http:
            with through(run, key="k"):
                answer = await http.post("/charges", content=Streaming(3), headers={"content-length": "3"})
                return int(answer.status_code)

    assert asyncio.run(main()) == 200
    assert server.writes[0].body == b"xxx"
