"""That the bench of MCP calls measures all that it names; what it finds depends on the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.test_http import told

pytest.importorskip("mcp", reason="needs the official MCP SDK: pip install 'agentstop[mcp]'")

SUBJECTS = ["bare call by the SDK", "call by the connector, ungated", "whole gated call"]


def test_a_tapped_and_a_gated_call_are_measured_beside_a_bare_one(tmp_path: Path) -> None:
    found = json.loads(told("bench.mcp.rounds", "1", "5", "30", DATABASE_URL=f"sqlite:///{tmp_path}/measured.sqlite3"))
    assert [each["name"] for each in found["figures"]] == SUBJECTS
    assert [len(each["rounds"][0]) for each in found["figures"]] == [5] * 3


def test_what_cancelled_calls_leave_behind_is_measured() -> None:
    said = told("bench.mcp.cancelled", "40")
    assert "40 calls of a tool over stdio, cancelled while it worked" in said
    assert "MB before" in said
