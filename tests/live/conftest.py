"""Websockets as a browser opens them: with a session's cookie, an origin, and a place to gather what arrives."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.test import Client

from agentstop.routing import websocket_urlpatterns
from agentstop.runs import Run, begin
from tests.conftest import HANG_GUARD

APPLICATION = AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))


@dataclass
class Socket:
    """One open page."""

    communicator: WebsocketCommunicator

    async def frame(self) -> str:
        return str(await self.communicator.receive_from(HANG_GUARD))

    async def frame_with(self, words: str) -> str:
        """The first frame from now on that holds these words."""
        while True:
            frame = await self.frame()
            if words in frame:
                return frame

    async def close_code(self) -> int:
        """The code that it is closed with, whatever comes before that."""
        while True:
            event = await self.communicator.receive_output(HANG_GUARD)
            if event["type"] == "websocket.close":
                return int(event["code"])

    async def quiet(self) -> bool:
        """Whether nothing more comes for a while."""
        return bool(await self.communicator.receive_nothing(timeout=0.5, interval=0.05))


Open = Callable[..., Any]


@pytest_asyncio.fixture
async def open_socket(ended: None) -> AsyncIterator[Open]:
    """Opens the websocket of a task as somebody's browser does; all are closed in the end."""
    opened: list[WebsocketCommunicator] = []

    async def start(task: int, session: str = "", *, origin: str = "http://testserver", query: str = "") -> Socket:
        headers = [(b"host", b"testserver"), (b"origin", origin.encode()), (b"cookie", f"sessionid={session}".encode())]
        communicator = WebsocketCommunicator(APPLICATION, f"/ws/agentstop/tasks/{task}/{query}", headers)
        opened.append(communicator)
        connected, _ = await communicator.connect(HANG_GUARD)
        assert connected, "refused before it was open"
        return Socket(communicator)

    yield start
    for communicator in opened:
        await communicator.disconnect(timeout=HANG_GUARD)


def session_of(user: User) -> str:
    """The cookie of a browser in which this user is logged in."""
    client = Client()
    client.force_login(user)
    key = client.session.session_key
    assert key
    return key


@pytest.fixture
def anns_session(ann: User) -> str:
    return session_of(ann)


@pytest.fixture
def run(ann: User, tools: None) -> Run:
    return begin("Quarterly report", owner=ann)


def in_another_process(database_url: str, statements: str) -> None:
    """Run these statements of Python with agentstop set up, in a process of its own."""
    ending = "from agentstop import sending, wake; sending.close(); wake.close()"
    code = f"import django; django.setup()\n{statements}\n{ending}"
    environment = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def ids(frame: str) -> list[str]:
    """The ids of the pieces in a frame."""
    return re.findall(r'data-agentstop-swap="morph"[^>]*? id="([^"]+)"', frame)
