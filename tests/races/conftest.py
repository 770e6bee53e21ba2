"""Who sends in the races: this process, one other process for the whole run, or one that may be killed or frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import InThread
from tests.races.beside import Beside
from tests.races.scene import Row, Scene
from tests.races.senders import OtherProcess, Sender, ThisProcess

HELD = 120.0  # seconds for which a send may be held, on a busy machine too

Start = Callable[..., OtherProcess]
Play = Callable[..., Scene]


@pytest.fixture(scope="session")
def kept() -> Iterator[list[OtherProcess]]:
    """The other process, once it was needed."""
    processes: list[OtherProcess] = []
    yield processes
    for process in processes:
        process.end()


@pytest.fixture
def this_process(in_thread: InThread) -> Iterator[Sender]:
    sender = ThisProcess(in_thread)
    yield sender
    sender.rest()


@pytest.fixture
def other_process(database_url: str, sandbox: SandboxClient, kept: list[OtherProcess]) -> Iterator[OtherProcess]:
    if not kept:
        kept.append(OtherProcess(database_url))
    process = kept[0]
    process.configure(sandbox.address, DEADLINE=HELD)
    yield process
    sandbox.reset()
    process.rest()


@pytest.fixture(params=["this process", "another process"])
def sender(request: pytest.FixtureRequest, in_thread: InThread) -> Sender:
    name = "this_process" if request.param == "this process" else "other_process"
    sender: Sender = request.getfixturevalue(name)
    return sender


@pytest.fixture
def start(database_url: str, sandbox: SandboxClient) -> Iterator[Start]:
    """Starts a process that may be killed or frozen."""
    started: list[OtherProcess] = []

    def start(**settings: float) -> OtherProcess:
        started.append(OtherProcess(database_url))
        started[-1].configure(sandbox.address, **{"DEADLINE": HELD, **settings})
        return started[-1]

    yield start
    sandbox.reset()
    for process in started:
        process.thaw()
        process.end()


@pytest.fixture
def play(ann: User, sandbox: SandboxClient, in_thread: InThread) -> Iterator[Play]:
    """Sets the scene of a row: who sends the operation, and where they are others, who sends all that is beside it.

    A row in which Stop was pressed has to look at all that is beside it: the four children among others.
    """
    played: list[Scene] = []

    def play(row: Row, sender: Sender, beside: Sender | None = None) -> Scene:
        played.append(Scene(row, sender, Beside(ann, beside or sender, sandbox, in_thread)))
        return played[-1]

    yield play
    assert [scene.row.point for scene in played if scene.beside.pressed and not scene.beside.checked] == []


@pytest.fixture(autouse=True)
def follow_up_at_once(settings: Settings) -> None:
    """What is due is due now: the tests turn the worker by hand. What is held is not given up by itself."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    settings.AGENTSTOP_DEADLINE = HELD
