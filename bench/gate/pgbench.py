"""The limit: how fast this PostgreSQL takes one row, asked by its own program without any Python."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.gate.figures import Measure, Subject
from tests.postgres import find_binaries

NAME = "one-row INSERT by pgbench"


def find() -> Path | None:
    program = find_binaries() / "pgbench"
    return program if program.exists() else None


def subject(program: Path, url: str, callers: int) -> Subject:
    return Subject(NAME, callers, measure(program, url, callers))


def measure(program: Path, url: str, callers: int) -> Measure:
    """Prepared statements over TCP, as our own connection goes; the seconds of each from its transaction log."""
    place = urlsplit(url)
    address = ["-h", str(place.hostname), "-p", str(place.port), "-U", str(place.username), place.path.lstrip("/")]

    def one_round(calls: int) -> Sequence[float]:
        with tempfile.TemporaryDirectory(prefix="agentstop-bench-") as folder:
            script = Path(folder, "insert.sql")
            script.write_text("INSERT INTO measured (v) VALUES ('x');\n")
            words = ["-n", "-M", "prepared", "-c", str(callers), "-t", str(-(-calls // callers)), "-f", str(script)]
            log = ["-l", f"--log-prefix={folder}/log"]
            subprocess.run([program, *words, *log, *address], check=True, capture_output=True)
            lines = [line for path in Path(folder).glob("log*") for line in path.read_text().splitlines()]
        return [int(line.split()[2]) / 1e6 for line in lines]

    return one_round
