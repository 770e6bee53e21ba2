"""The pytest plugin: a sandbox provider, and the race runner, as fixtures. Needs pytest-django.

It is loaded wherever agentstop is installed, so nothing is imported before a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentstop.testing.races.runner import Races
    from agentstop.testing.sandbox.client import SandboxClient
    from agentstop.testing.sandbox.local import LocalSandbox
    from agentstop.testing.sandbox.process import RunningSandbox


@pytest.fixture
def agentstop_ended(request: pytest.FixtureRequest) -> Iterator[None]:
    """With a database for many threads; what a test sends has come to its end before that is emptied."""
    request.getfixturevalue("transactional_db")
    yield
    from agentstop.testing.ending import end

    end()


@pytest.fixture(scope="session")
def agentstop_sandbox_process() -> Iterator[RunningSandbox]:
    """One sandbox provider in a process of its own for the whole run; needs agentstop[live,http]."""
    from agentstop.testing.sandbox.process import running_sandbox

    with running_sandbox() as running:
        yield running


@pytest.fixture
def agentstop_sandbox(agentstop_sandbox_process: RunningSandbox, agentstop_ended: None) -> Iterator[SandboxClient]:
    """Its control, with an empty ledger. `agentstop_connect` makes connectors of it."""
    client = agentstop_sandbox_process.client
    client.reset()
    yield client
    client.reset()  # whoever is still held goes on, so that the sends can end


@pytest.fixture
def agentstop_local(agentstop_ended: None) -> Iterator[LocalSandbox]:
    """The same in this process, without a socket; needs agentstop[http]."""
    from agentstop.testing.sandbox.local import LocalSandbox

    local = LocalSandbox()
    local.reset()
    yield local
    local.reset()


@pytest.fixture
def agentstop_connect(settings: Any) -> Callable[..., None]:
    """`agentstop_connect(sandbox, "mail", called={"mail.send": "notify.post"})`: it stands in for this connector."""

    def connect(sandbox: SandboxClient, name: str, **options: Any) -> None:
        connectors = getattr(settings, "AGENTSTOP_CONNECTORS", {})
        settings.AGENTSTOP_CONNECTORS = {**connectors, name: sandbox.connector(**options)}

    return connect


@pytest.fixture
def agentstop_races(agentstop_ended: None, settings: Any) -> Callable[..., Races]:
    """`agentstop_races(agent, owner=user, sandbox=sandbox)` or `stage=`: a race runner."""
    from agentstop.testing.races.runner import Races
    from agentstop.testing.races.stage import SandboxStage

    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0  # what is due is due now

    def races(agent: Callable[..., Any], *, sandbox: SandboxClient | None = None, **options: Any) -> Races:
        if sandbox is not None:
            options["stage"] = SandboxStage(sandbox)
        return Races(agent, **options)

    return races
