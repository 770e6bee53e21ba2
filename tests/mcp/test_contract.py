"""The provider contract, put to the MCP provider over each transport and in both revisions."""

from __future__ import annotations

import pytest

from agentstop.providers.mcp import McpProvider, McpTool
from agentstop.testing.contract.suite import ProviderContract
from agentstop.testing.contract.trial import Subject
from tests.mcp.conftest import Referee
from tests.providers.calls import closed_port


class TestTheContract(ProviderContract):
    @pytest.fixture
    def subject(self, referee: Referee) -> Subject:
        """The ledger knows a call by its name, which is its key."""
        tools = {each: McpTool(cancel="ask") for each in ("quick", "async_note")}
        return Subject(
            provider=lambda: McpProvider(**referee.way, tools=tools),
            action="quick",
            effects=lambda key: referee.did(key).count("did"),
            name_of_key=lambda key: {"name": key},
            unreachable=lambda: McpProvider(url=f"{closed_port()}/mcp", revision="2026-07-28"),
        )
