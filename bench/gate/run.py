"""Starts the databases, lets each be measured by a process of its own, and gathers the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.gate.figures import Figures, Part
from tests.postgres import PostgresMissing, postgres

ROOT = Path(__file__).resolve().parent.parent.parent
SHARE = 0.75  # of the time, for PostgreSQL


def everything(rounds: int, calls: int, seconds: float) -> list[Part]:
    """PostgreSQL as it is shipped, durable; then SQLite with synchronous=FULL."""
    return [on_postgresql(rounds, calls, seconds * SHARE), on_sqlite(rounds, calls, seconds * (1 - SHARE))]


def on_postgresql(rounds: int, calls: int, seconds: float) -> Part:
    try:
        with postgres() as url:
            return measured(url, rounds, calls, seconds)
    except PostgresMissing as missing:
        return Part("PostgreSQL", missing=[f"Not measured: {missing}"])


def on_sqlite(rounds: int, calls: int, seconds: float) -> Part:
    with tempfile.TemporaryDirectory(prefix="agentstop-bench-") as folder:
        return measured(f"sqlite:///{folder}/measured.sqlite3", rounds, calls, seconds)


def measured(url: str, rounds: int, calls: int, seconds: float) -> Part:
    command = [sys.executable, "-m", "bench.gate.rounds", str(rounds), str(calls), str(seconds)]
    done = subprocess.run(
        command, env=os.environ | {"DATABASE_URL": url}, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return Part(found["database"], [Figures(**each) for each in found["figures"]], found["missing"])
