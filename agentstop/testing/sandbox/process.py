"""A sandbox for the length of a block: its own process, its own port, its own ledger."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import agentstop
from agentstop.testing.sandbox.client import SandboxClient

READY = "sandbox ready "
ROOT = Path(agentstop.__file__).resolve().parent.parent
PATIENCE = 15.0  # seconds for an ending process


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """Where it listens, who speaks to it, which process it is."""

    address: str
    client: SandboxClient
    pid: int
    ledger: Path


@contextmanager
def running_sandbox(*, ledger: Path | None = None, port: int = 0) -> Iterator[RunningSandbox]:
    """Start a sandbox, wait until it is ready, and end it by its pid. With a ledger of its own where none is named."""
    with tempfile.TemporaryDirectory(prefix="agentstop-sandbox-") as folder:
        path = ledger or Path(folder) / "ledger.sqlite3"
        with _process(path, port) as process, SandboxClient(_address(process)) as client:
            yield RunningSandbox(client.address, client, process.pid, path)


@contextmanager
def _process(ledger: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "agentstop.testing.sandbox", "--exit-with-parent"]
    command += ["--port", str(port), "--ledger", str(ledger)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith(READY):
        raise RuntimeError("The sandbox did not start: see its message above.")
    return line.removeprefix(READY).strip()
