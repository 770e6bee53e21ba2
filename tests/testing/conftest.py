"""One sandbox for the tests of a module, empty for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.process import RunningSandbox, running_sandbox
from tests.testing.requests import GUARD


@pytest.fixture(scope="module")
def process() -> Iterator[RunningSandbox]:
    with running_sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def client(process: RunningSandbox) -> SandboxClient:
    process.client.reset()
    return process.client


@pytest.fixture
def http(client: SandboxClient) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=client.address, timeout=GUARD, trust_env=False) as http:
        yield http


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Starts a call in a thread; whoever asks its future for the result gets its error, too."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit
