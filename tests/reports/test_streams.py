"""A model's stream that is being read at the moment of the stop: its side sees the connection close, or it is listed.

On a real socket, whose other end is the test's: it says one word after another, and notices when its reader is gone.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.exceptions import Stopped
from agentstop.integrations.http.for_httpx import GatedTransport
from agentstop.integrations.http.scope import through
from agentstop.models import Receipt
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.reports.acts import operation, seen

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Upstream:
    """The model's side of one stream."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(HANG_GUARD)
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._reader: socket.socket | None = None
        self._there, self.closed = threading.Event(), threading.Event()

    def serve(self) -> None:
        """Take one request, and wait until whoever sent it closes the connection."""
        reader, _ = self._listening.accept()
        reader.settimeout(HANG_GUARD)
        with reader:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += reader.recv(65_536)
            reader.sendall(HEAD)
            self._reader = reader
            self._there.set()
            try:
                assert reader.recv(1) == b""
            except ConnectionResetError:  # it was closed before it had read all that was said
                pass
            self.closed.set()

    def say(self, word: str) -> None:
        assert self._there.wait(HANG_GUARD) and self._reader is not None
        self._reader.sendall(f"{len(word):x}\r\n{word}\r\n".encode())

    def end(self) -> None:
        assert self._reader is not None
        self._reader.sendall(b"0\r\n\r\n")

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def upstream(in_thread: InThread) -> Iterator[Upstream]:
    upstream = Upstream()
    in_thread(upstream.serve)
    yield upstream
    upstream.close()


@pytest.fixture
def run(ann: User) -> Run:
    return begin("Generate", owner=ann)


class Heard:
    """What was read of the stream."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._came = threading.Semaphore(0)

    def add(self, word: str) -> None:
        self.words.append(word)
        self._came.release()

    def wait(self) -> None:
        assert self._came.acquire(timeout=HANG_GUARD)


Tool = Callable[[Dispatched], Any]


def on_the_loop(upstream: Upstream, heard: Heard) -> Tool:
    async def read(op: Dispatched) -> str:
        op.check()
        async with (
            httpx.AsyncClient(trust_env=False, timeout=HANG_GUARD) as client,
            client.stream("POST", upstream.address) as answer,
        ):
            async for word in answer.aiter_text():
                heard.add(word)
        return "".join(heard.words)

    return read


def in_a_thread(upstream: Upstream, heard: Heard) -> Tool:
    """Between two words it looks at the stop signal."""

    def read(op: Dispatched) -> str:
        op.check()
        with (
            httpx.Client(trust_env=False, timeout=HANG_GUARD) as client,
            client.stream("POST", upstream.address) as answer,
        ):
            for word in answer.iter_text():
                heard.add(word)
                op.stop_signal.raise_if_set()
        return "".join(heard.words)

    return read


@pytest.mark.parametrize("tool", [on_the_loop, in_a_thread])
def test_the_model_sees_the_close_at_the_stop(
    tool: Callable[[Upstream, Heard], Tool], run: Run, upstream: Upstream, in_thread: InThread
) -> None:
    """R2, R26: its caller is free at once; a coroutine is broken off in silence, a thread at its next word."""
    heard = Heard()
    call = {"connector": "tools", "key": "k", "send": tool(upstream, heard), "on_stop": "cancel"}
    called = in_thread(run.call, "generate", **call)
    upstream.say("half ")
    heard.wait()
    stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    if tool is in_a_thread:
        assert seen(run, "k").label is Label.STILL_ACTIVE
        upstream.say("and more")
    assert upstream.closed.wait(HANG_GUARD)
    sending.close()
    assert heard.words[0] == "half " and run.context() == []
    assert seen(run, "k").label is Label.GIVEN_UP
    assert list(differences()) == []


def test_a_stream_that_is_left_to_finish_is_listed_as_active_and_not_closed(
    run: Run, upstream: Upstream, in_thread: InThread
) -> None:
    """Nobody has said that its tool may be broken off: the model goes on, and the stop does not hide it."""
    heard = Heard()
    called = in_thread(run.call, "generate", connector="tools", key="k", send=on_the_loop(upstream, heard))
    upstream.say("half ")
    heard.wait()
    report = stop(run.task_id)
    assert called.result(HANG_GUARD).ignored
    assert report.open == (operation(run, "k").pk,)
    assert seen(run, "k").reading.name == "still active (being sent)"
    upstream.say("and half")
    heard.wait()
    assert not upstream.closed.is_set()
    upstream.end()
    sending.close()
    assert upstream.closed.wait(HANG_GUARD)
    assert (seen(run, "k").label, run.context()) == (Label.COMPLETED_BEFORE, [])
    assert Receipt.objects.get(claim="succeeded").body == "half and half"


def test_a_gated_client_within_an_operation_closes_the_stream_and_keeps_the_half(
    run: Run, upstream: Upstream, in_thread: InThread
) -> None:
    """The agent's own loop reads it and looks at the signal; what it had reported stays, and no end is claimed."""
    heard = Heard()

    def agent() -> None:
        gated = httpx.Client(transport=GatedTransport("tools"), timeout=HANG_GUARD)
        with (
            run,
            gated,
            run.dispatch("generate", connector="tools", key="k") as op,
            through(op),
            gated.stream("POST", upstream.address) as answer,
        ):
            for number, word in enumerate(answer.iter_text(), 1):
                op.progress(number / 10)
                heard.add(word)
                op.stop_signal.raise_if_set()

    ended = in_thread(pytest.raises, Stopped, agent)
    upstream.say("half ")
    heard.wait()
    stop(run.task_id)
    upstream.say("and more")
    assert upstream.closed.wait(HANG_GUARD)
    ended.result(HANG_GUARD)
    assert seen(run, "k").label is Label.STILL_ACTIVE  # that its reader has gone does not tell what the model does
    told = Receipt.objects.filter(operation=operation(run, "k")).order_by("pk")
    claimed = [(one.claim, one.body) for one in told]
    assert (claimed[0], claimed[-1][0]) == (("progress", "0.1"), "lost")
