"""Who sends in the races: this process, or one other process for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import InThread
from tests.races.senders import OtherProcess, Sender, ThisProcess


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
    process.configure(sandbox.address)
    yield process
    sandbox.reset()
    process.rest()


@pytest.fixture(params=["this process", "another process"])
def sender(request: pytest.FixtureRequest, in_thread: InThread) -> Sender:
    name = "this_process" if request.param == "this process" else "other_process"
    sender: Sender = request.getfixturevalue(name)
    return sender


@pytest.fixture(autouse=True)
def follow_up_at_once(settings: Settings) -> None:
    """What is due is due now: the tests turn the worker by hand."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
