"""Starts the databases, lets each be measured by a process of its own, and gathers the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.gate.figures import Figures, Part
from tests.postgres import PostgresMissing, postgres

ROOT = Path(__file__).resolve().parent.parent.parent
SHARE = 0.75  # of the time, for PostgreSQL
NOTHING: Mapping[str, str] = {}


def everything(rounds: int, calls: int, seconds: float, *, prepared: bool) -> list[Part]:
    """The gate on both databases."""
    return on_both("bench.gate.rounds", [rounds, calls], seconds, prepared=prepared)


def on_both(module: str, numbers: Sequence[int], seconds: float, *, prepared: bool = False) -> list[Part]:
    """PostgreSQL as it is shipped, durable; then SQLite with synchronous=FULL."""
    first = on_postgresql(module, numbers, seconds * SHARE, prepared=prepared)
    return [first, on_sqlite(module, numbers, seconds * (1 - SHARE))]


def on_postgresql(module: str, numbers: Sequence[int], seconds: float, *, prepared: bool) -> Part:
    try:
        with postgres() as url:
            return measured(module, url, numbers, seconds, {"BENCH_PREPARED": "1" if prepared else ""})
    except PostgresMissing as missing:
        return Part("PostgreSQL", missing=[f"Not measured: {missing}"])


def on_sqlite(module: str, numbers: Sequence[int], seconds: float) -> Part:
    with tempfile.TemporaryDirectory(prefix="agentstop-bench-") as folder:
        return measured(module, f"sqlite:///{folder}/measured.sqlite3", numbers, seconds)


def measured(module: str, url: str, numbers: Sequence[int], seconds: float, more: Mapping[str, str] = NOTHING) -> Part:
    command = [sys.executable, "-m", module, *map(str, numbers), str(seconds)]
    variables = os.environ | {"DATABASE_URL": url, **more}
    done = subprocess.run(command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Part(found["database"], [Figures(**each) for each in found["figures"]], found["missing"])
