"""That the bench of HTTP calls measures all that it names; what it finds depends on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUBJECTS = ["bare POST by httpx", "gated POST", "POST within an operation", "GET by the gated client"]
PATIENCE = 240.0


def told(*words: str, **variables: str) -> str:
    command = [sys.executable, "-m", *words]
    environment = os.environ | variables
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=PATIENCE
    )
    return done.stdout


def test_a_gated_call_is_measured_beside_a_bare_one(tmp_path: Path) -> None:
    found = json.loads(told("bench.http.rounds", "1", "5", "30", DATABASE_URL=f"sqlite:///{tmp_path}/measured.sqlite3"))
    assert [each["name"] for each in found["figures"]] == SUBJECTS
    assert [len(each["rounds"][0]) for each in found["figures"]] == [5] * 4


def test_what_cancelled_calls_leave_behind_is_measured() -> None:
    said = told("bench.http.cancelled", "40")
    assert "40 gated calls, cancelled in the middle of the write" in said
    assert "MB before" in said
