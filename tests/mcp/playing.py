"""The scripted MCP server as a fixture: over each transport, in each revision, with its ledger as the referee."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentstop.providers.base import Capability, Compensation, LookUp, SubmitIdempotency
from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.testing.contract.trial import Subject
from tests.counted import eventually
from tests.providers.calls import closed_port

ROOT = Path(__file__).parent.parent.parent
SECRET = "Bearer s3cret-login"
HONOURS = Capability(
    submit=SubmitIdempotency.KEY,
    key_life=timedelta(days=1),
    cancel_needs_ref=False,
    compensation=Compensation("undo"),
)
FOLLOWED = replace(HONOURS, look_up=LookUp.BY_REF, authoritative=True)
TOOLS = {
    "undo": McpTool(errors="failed"),
    "play": McpTool(cancel="ask", errors="failed", capability=HONOURS),
    "job": McpTool(cancel="ask", errors="failed", task=True, capability=FOLLOWED),
}


@dataclass
class Playing:
    """The way to one scripted server, and what it has written down."""

    folder: Path
    transport: str
    revision: str
    address: str = ""

    def provider(self, **options: Any) -> McpProvider:
        return McpProvider(**{**self.way, "tools": TOOLS, **options})

    @property
    def way(self) -> dict[str, Any]:
        """The options that lead to the server."""
        if self.transport == "http":
            url = f"{self.address}/{self.folder.name}/mcp"
            return {"url": url, "revision": self.revision, "headers": {"Authorization": SECRET}}
        command = [sys.executable, "-m", "tests.mcp.scripted", "stdio", str(self.folder)]
        return {"command": command, "cwd": str(ROOT), "revision": self.revision}

    @property
    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def count(self, what: str, key: str) -> int:
        return self.ledger.count(f"{what} {key}")

    def settled(self, key: str) -> None:
        """Whatever has begun under this key is over."""
        eventually(lambda: self.count("over", key) == self.count("began", key), True)

    def subject(self, action: str) -> Subject:
        """For the provider contract."""
        plain = action == "play"
        return Subject(
            provider=self.provider,
            action=action,
            effects=lambda key: self.count("did", key),
            settled=self.settled,
            losing={"how": "lose"},
            refused={"how": "refuse"},
            lasting={"how": "last"},
            begun=(lambda key: eventually(lambda: self.count("at-working", key), 1)) if plain else None,
            hanging={"how": "hang"},
            unreachable=self._nobody,
            secrets=[SECRET, "s3cret-login"],
        )

    def _nobody(self) -> McpProvider:
        if self.transport == "http":
            return McpProvider(url=f"{closed_port()}/mcp", revision=self.revision, tools=TOOLS)
        return McpProvider(command=["/no/such/program"], revision=self.revision, tools=TOOLS)


@contextmanager
def scripted_over_http(folder: Path) -> Iterator[str]:
    """Its address, without a path."""
    command = [sys.executable, "-m", "tests.mcp.scripted", "http", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def another(folder: Path) -> Path:
    """A folder of its own within."""
    return folder / uuid.uuid4().hex[:12]
