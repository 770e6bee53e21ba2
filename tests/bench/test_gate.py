"""That the bench measures all that it names; what it finds depends on the machine, and is asserted nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gate.figures import Figures, Part
from bench.gate.report import as_text

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = {"one-row INSERT by Django", "gate pass", "whole gated call", "whole gated call, async"}
PEERS = {"one-row INSERT by pgbench": "pgbench", "step of a DBOS workflow": "DBOS"}


def bench(*words: str) -> str:
    command = [sys.executable, "-m", "bench", "--rounds", "1", "--calls", "20", "--descendants", "300", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout


def test_every_subject_is_measured_on_both_databases_or_named_as_missing() -> None:
    postgresql, sqlite, *others = json.loads(bench("--json"))["databases"]
    families, http, mcp, (*queues, pages) = others[:2], others[2:4], others[4:6], others[6:]
    for each in families:
        whole = ["UPDATE of 300 rows by Django", "stop of 300 descendants"]
        assert "Not measured" in "".join(each["missing"]) or [one["subject"] for one in each["figures"]] == whole
    assert ["Not measured" in "".join(each["missing"]) or len(each["figures"]) for each in http] in ([4, 4], [True, 4])
    assert ["Not measured" in "".join(each["missing"]) or len(each["figures"]) for each in mcp] in ([3, 3], [True, 3])
    assert queues and all(each["figures"] or "Not measured" in "".join(each["missing"]) for each in queues)
    assert "Not measured" in "".join(pages["missing"]) or (
        len(pages["figures"]) == 3 and "200 open pages" in "".join(pages["missing"])
    )
    assert {each["subject"] for each in sqlite["figures"]} >= OURS
    missing = " ".join(postgresql["missing"])
    if "Not measured" in missing:
        pytest.skip(missing)
    measured = {each["subject"] for each in postgresql["figures"]}
    assert measured >= OURS
    assert [name for name, peer in PEERS.items() if name not in measured and peer not in missing] == []
    assert {each["callers"] for each in postgresql["figures"]} == {1, 8}


def test_the_table_compares_by_rounds_so_that_a_slow_moment_of_the_machine_changes_no_ratio() -> None:
    limit = Figures("limit", 1, [[0.001] * 3, [0.010] * 3, [0.001] * 3])
    subject = Figures("subject", 1, [[0.002] * 3, [0.020] * 3, [0.002] * 3])
    [found] = [line for line in as_text([Part("SQLite", [limit, subject])]).splitlines() if "subject" in line]
    assert found.split()[-2:] == ["2.0", "2.0"]


def test_a_wish_that_makes_no_sense_is_refused_in_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "--calls", "0"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "must be 1 or more" in done.stderr


def test_what_is_missing_is_said() -> None:
    assert "Not measured: no server" in as_text([Part("PostgreSQL", missing=["Not measured: no server"])])
