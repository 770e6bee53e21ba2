"""The sandbox as a process, and its page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.process import ROOT, running_sandbox
from tests.testing.requests import GUARD, create


class TestPage:
    def test_it_shows_what_happened_without_script_or_inline_style(self, http: httpx.Client) -> None:
        create(http, "notification", text="<script>alert(1)</script>", label="task 1")
        page = http.get("/")
        assert "&lt;script&gt;alert(1)" in page.text
        assert "<script" not in page.text
        assert "style=" not in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert http.get("/ledger.css").headers["content-type"].startswith("text/css")

    def test_it_can_be_narrowed_to_a_task_or_to_keys(self, http: httpx.Client) -> None:
        for key, label in (("k1", "one"), ("k2", "two"), ("k3", "two")):
            create(http, "notification", key, label=label)
        assert "2 effects of the task two" in http.get("/", params={"task": "two"}).text
        assert "No effect was accepted." in http.get("/", params={"task": "three"}).text
        told = http.get("/ledger", params={"keys": "k1,k3"}).json()
        assert [effect["key"] for effect in told["effects"]] == ["k1", "k3"]


class TestProcess:
    def test_its_ledger_survives_a_kill_and_work_goes_on_after_it(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger.sqlite3"
        with running_sandbox(ledger=ledger) as first, httpx.Client(base_url=first.address) as http:
            first.client.hold("working")
            create(http, "report", "kept", seconds=0)
            os.kill(first.pid, signal.SIGKILL)
        with running_sandbox(ledger=ledger) as second, httpx.Client(base_url=second.address) as http:
            assert create(http, "report", "kept", seconds=0).json()["ref"] == "/reports/1"
            assert second.client.settled("kept")[0]["status"] == "succeeded"

    def test_a_taken_port_is_one_sentence(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            ended = start(["--port", str(taken.getsockname()[1]), "--ledger", str(tmp_path / "l.sqlite3")])
        assert ended.returncode == 1
        assert "The sandbox cannot listen" in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_a_ledger_that_cannot_be_opened_is_one_sentence(self, tmp_path: Path) -> None:
        ended = start(["--ledger", str(tmp_path / "no" / "such" / "folder")])
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1

    @pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
    def test_it_ends_quietly_while_it_works_and_holds(
        self, tmp_path: Path, background: Callable[..., Future[Any]], ending: signal.Signals
    ) -> None:
        command = [sys.executable, "-m", "agentstop.testing.sandbox", "--ledger", str(tmp_path / "l.sqlite3")]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("sandbox ready ").strip()
            with httpx.Client(base_url=address, timeout=GUARD) as http, SandboxClient(address) as client:
                create(http, "report", "working", seconds=60)
                client.hold("received")
                held = background(create, http, "upload", "held")
                client.wait("received")
                process.send_signal(ending)
                _, told = process.communicate(timeout=GUARD)
                with pytest.raises(httpx.TransportError):
                    held.result(GUARD)
        assert (process.returncode, told) == (0, "")

    def test_it_ends_with_its_parent_when_asked_to(self, tmp_path: Path) -> None:
        child = [sys.executable, "-m", "agentstop.testing.sandbox", "--exit-with-parent"]
        child += ["--ledger", str(tmp_path / "l.sqlite3")]
        # The parent hands on the ready line and ends; the pipe ends when the last process that holds it has ended.
        parent = (
            "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True);"
            "sys.stdout.write(p.stdout.readline()); sys.stdout.flush(); import os; os._exit(0)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", parent, *child],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=GUARD,
            check=True,
        )
        address = ended.stdout.removeprefix("sandbox ready ").strip()
        with pytest.raises(httpx.ConnectError):
            httpx.get(address, trust_env=False)


def start(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentstop.testing.sandbox", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
