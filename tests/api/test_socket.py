"""Events by a websocket as JSON, on a real daphne: the same facts as by the long poll, for the same callers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from agentstop import database, sessions, sockets, tokens
from agentstop.api import guesses
from agentstop.models import ServiceToken, Task
from agentstop.sending import in_domain
from agentstop.stop import stop
from tests.api.conftest import Caller, RunAt, Token, row
from tests.conftest import HANG_GUARD
from tests.hosts.process import ROOT, answering
from tests.live.conftest import APPLICATION, session_of
from website.demo.system import free_port

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def opened(
    address: str, task: int, *, token: str = "", cookie: str = "", offer: str = ""
) -> Iterator[ClientConnection]:
    """As an application with a header, one that can send none, or a browser opens it."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Cookie": f"sessionid={cookie}"} if cookie else {}
    with connect(
        f"{address.replace('http', 'ws')}/ws/agentstop/tasks/{task}/events/",
        origin=Origin(address),
        additional_headers=headers,
        subprotocols=[Subprotocol("agentstop.events"), Subprotocol(f"bearer.{offer}")] if offer else None,
        proxy=None,
        open_timeout=HANG_GUARD,
    ) as socket:
        yield socket


def event(socket: ClientConnection) -> dict[str, Any]:
    """The next frame that holds news."""
    while (told := json.loads(socket.recv(HANG_GUARD))) == {}:
        pass
    return dict(told)


def close_code(socket: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(HANG_GUARD)
    return closed.value.rcvd.code if closed.value.rcvd is not None else None


def test_a_client_hears_what_the_long_poll_tells(
    run: RunAt, ann: User, ben: User, token: Token, database_url: str, tmp_path: Path
) -> None:
    """R37, R46: from a snapshot on, committed elsewhere. Strangers and tokens without the scope are told nothing."""
    port, own = free_port(), token(ann)
    words = [sys.executable, "-m", "daphne", "--bind", "127.0.0.1", "--port", str(port), "website.asgi:application"]
    site = os.environ | {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with answering(port, words, ROOT, site, tmp_path / "log", "/healthz") as address:
        with (
            opened(address, run.task, token=own) as agent,
            opened(address, run.task, cookie=session_of(ann)) as person,
            opened(address, run.task, offer=own) as plain,
        ):
            assert plain.subprotocol == "agentstop.events"
            first = event(agent)
            assert first == event(person) == event(plain) == told_by_poll(run)
            stop(run.task, by=ann, reason="wrong list")
            second = event(agent)
            assert second["report"]["task"]["stopped"]["reason"] == "wrong list"
            assert second == event(person) == told_by_poll(run) and second["cursor"] != first["cursor"]
        for who, code in (
            ({"token": token(ben)}, 4404),
            ({"cookie": session_of(ben)}, 4404),
            ({"token": token(ann, "control")}, 4401),
            ({"token": "agentstop_x_y", "cookie": session_of(ann)}, 4401),
            ({}, 4401),
        ):
            with opened(address, run.task, **who) as other:
                assert close_code(other) == code, who
    assert own not in (tmp_path / "log").read_text()


def told_by_poll(run: RunAt) -> dict[str, Any]:
    return dict(run.agent.get(f"/tasks/{run.task}/events").body)


Open = Callable[..., Any]


@pytest_asyncio.fixture
async def listen(ended: None) -> AsyncIterator[Open]:
    """Opens the same within this process."""
    opened: list[WebsocketCommunicator] = []

    async def start(task: int, token: str, query: str = "") -> WebsocketCommunicator:
        headers = [(b"host", b"testserver"), (b"origin", b"http://testserver")]
        headers.append((b"authorization", f"Bearer {token}".encode()))
        path = f"/ws/agentstop/tasks/{task}/events/{query}"
        opened.append(WebsocketCommunicator(APPLICATION, path, headers))
        assert (await opened[-1].connect(HANG_GUARD))[0]
        return opened[-1]

    yield start
    for communicator in opened:
        await communicator.disconnect(timeout=HANG_GUARD)


async def ended_with(socket: WebsocketCommunicator) -> int:
    while (told := await socket.receive_output(HANG_GUARD))["type"] != "websocket.close":
        pass
    return int(told["code"])


@pytest.mark.asyncio
async def test_it_ends_with_its_token_its_right_and_the_place_of_its_user(
    listen: Open, run: RunAt, ann: User, token: Token, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cap as for pages; what is revoked is noticed with the next change, and without one."""
    monkeypatch.setattr(sessions, "CHECK", 0.1)
    monkeypatch.setattr(sockets, "MOST_OPEN", 3)
    texts = [await in_domain(token, ann) for _ in range(3)]
    revoked, left, switched = [await listen(run.task, text) for text in texts]
    assert await ended_with(await listen(run.task, texts[0])) == 1013
    told = json.loads(await left.receive_from(HANG_GUARD))
    await in_domain(tokens.revoke, await in_domain(row, texts[0]), by=root)
    assert await ended_with(revoked) == 4403
    await in_domain(
        ServiceToken.objects.filter(name=texts[2].split("_")[1]).update, until=await in_domain(database.now)
    )
    assert await ended_with(switched) == 4403
    await revoked.disconnect(timeout=HANG_GUARD)
    later = await listen(run.task, texts[1], f"?cursor={told['cursor']}&language=de")
    assert json.loads(await later.receive_from(HANG_GUARD))["report"]["summary"] != told["report"]["summary"]
    await in_domain(Task.objects.filter(pk=run.task).update, owner=root)
    assert await ended_with(left) == 4404


@pytest.mark.asyncio
async def test_who_guesses_there_is_counted_as_over_http(
    listen: Open, run: RunAt, ann: User, token: Token, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed as for any wrong token, told to operators, and the right one is let in all the same."""
    monkeypatch.setattr(guesses, "MOST", 2)
    for _ in range(4):
        assert await ended_with(await listen(run.task, "agentstop_x_y")) == 4401
    assert [each.action for each in caplog.records if hasattr(each, "action")].count("tokens_guessed") == 1
    right = await listen(run.task, await in_domain(token, ann))
    assert json.loads(await right.receive_from(HANG_GUARD))["report"]["task"]["id"] == run.task
    wrong = Caller("agentstop_x_y")
    wrong.client.defaults["REMOTE_ADDR"] = ""  # as that of the socket here
    assert (await in_domain(wrong.get, "/tasks")).status == 429
