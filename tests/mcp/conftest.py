"""A real MCP server under a connector, over each transport and in each revision of the protocol."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agentstop import connectors, sending
from tests.conftest import InThread
from tests.counted import eventually

pytest.importorskip("mcp", reason="needs the official MCP SDK: pip install 'agentstop[mcp]'")

from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.providers.mcp_tool import HANDSHAKE, STATELESS
from tests.mcp.playing import Playing, another, scripted_over_http

ROOT = Path(__file__).parent.parent.parent
COMBINATIONS = [(transport, revision) for transport in ("stdio", "http") for revision in (HANDSHAKE, STATELESS)]


@dataclass
class Referee:
    """What the server's tools have written down, and leave for them to go on."""

    folder: Path
    address: str
    transport: str
    revision: str
    tools: dict[str, Any] = field(default_factory=dict)

    @property
    def way(self) -> dict[str, Any]:
        """The options that lead to the server."""
        if self.transport == "http":
            return {"url": self.address, "revision": self.revision}
        command = [sys.executable, "-m", "tests.mcp.server", "stdio", str(self.folder)]
        return {"command": command, "cwd": str(ROOT), "revision": self.revision}

    @property
    def closes(self) -> bool:
        """Asking to give a call up closes its stream."""
        return (self.transport, self.revision) == ("http", STATELESS)

    def did(self, name: str) -> list[str]:
        """What was done under this name, in order."""
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return [what for what, _, told in (line.partition(" ") for line in lines) if told == name]

    def wait_for(self, what: str, name: str) -> None:
        eventually(lambda: what in self.did(name), True)

    def go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    def connect(self, settings: Settings, **options: Any) -> McpProvider:
        """The connector `mcp`, with these options besides."""
        entry = {"PROVIDER": "agentstop.providers.mcp.McpProvider", "OPTIONS": {**self.way, **options}}
        settings.AGENTSTOP_CONNECTORS = {"mcp": entry}
        provider = connectors.get("mcp")
        assert isinstance(provider, McpProvider)
        return provider


@pytest.fixture(scope="session")
def http_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("mcp")
    command = [sys.executable, "-m", "tests.mcp.server", "http", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", folder
        process.stdin.close()


@pytest.fixture(params=COMBINATIONS, ids=[f"{transport}-{revision}" for transport, revision in COMBINATIONS])
def referee(request: pytest.FixtureRequest, http_server: tuple[str, Path], ended: None) -> Referee:
    """The server over one transport in one revision; select with `indirect`."""
    address, folder = http_server
    transport, revision = request.param
    return Referee(folder, address, transport, revision)


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The scripted server over HTTP, for the whole run."""
    folder = tmp_path_factory.mktemp("scripted")
    with scripted_over_http(folder) as address:
        yield address, folder


@pytest.fixture(params=COMBINATIONS, ids=[f"{transport}-{revision}" for transport, revision in COMBINATIONS])
def playing(request: pytest.FixtureRequest, scripted: tuple[str, Path]) -> Playing:
    """The scripted server with a ledger of its own, over one transport in one revision; select with `indirect`."""
    address, folder = scripted
    transport, revision = request.param
    return Playing(another(folder), transport, revision, address)


@pytest.fixture
def raw(settings: Settings, tmp_path: Path, ended: None) -> Referee:
    """A server that speaks the protocol by hand, over stdio; its tools misbehave. Connected as `mcp`."""
    referee = Referee(tmp_path, "", "stdio", HANDSHAKE)
    tasks = {name: McpTool(task=True) for name in ("job", "stubborn_job", "forgotten_job")}
    names = "twice other_id never steps nonsense wrong dies dies_on_cancel huge errs changes"
    plain = {name: McpTool(cancel="ask") for name in names.split()}
    entry = {
        "PROVIDER": "agentstop.providers.mcp.McpProvider",
        "OPTIONS": {
            "command": [sys.executable, str(Path(__file__).parent / "raw.py"), str(tmp_path)],
            "revision": HANDSHAKE,
            "tools": tasks | plain,
        },
    }
    settings.AGENTSTOP_CONNECTORS = {"mcp": entry}
    return referee


@pytest.fixture
def name() -> str:
    """One under which nothing was done yet."""
    return uuid.uuid4().hex[:12]


@pytest.fixture(autouse=True)
def released(request: pytest.FixtureRequest, in_thread: InThread, settings: Settings) -> Iterator[None]:
    """Whatever fails, tools go on before the threads that wait for them are joined."""
    settings.AGENTSTOP_DRAIN = 0.2  # what is never answered must not hold up the end of a test
    asked = request.fixturenames
    servers = [request.getfixturevalue(kind) for kind in ("raw", "referee") if kind in asked]
    names = [request.getfixturevalue("name")] if "name" in asked else []
    yield
    for server in servers:
        for each in names:
            server.go(each)
    sending.close()  # with this test's settings
