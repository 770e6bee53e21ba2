"""Workers that are processes of their own, and follow-up work that waits for no back-off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_django.fixtures import Settings

from agentstop.testing.sandbox.client import SandboxClient
from tests.races.senders import OtherProcess

HELD = 120.0  # seconds for which a send may be held, on a busy machine too

StartWorker = Callable[..., OtherProcess]


@pytest.fixture
def start_worker(database_url: str, sandbox: SandboxClient) -> Iterator[StartWorker]:
    """Starts a process that sends, and that may be killed or frozen."""
    started: list[OtherProcess] = []

    def start(**settings: float) -> OtherProcess:
        started.append(OtherProcess(database_url))
        started[-1].configure(sandbox.address, DEADLINE=HELD, **settings)
        return started[-1]

    yield start
    sandbox.reset()
    for worker in started:
        worker.thaw()
        worker.end()


@pytest.fixture(autouse=True)
def patient(settings: Settings) -> None:
    """What is due is due now, since the tests turn the worker by hand; what is held is not given up by itself."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    settings.AGENTSTOP_DEADLINE = HELD
