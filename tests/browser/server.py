"""A web server of a test's own on a running demo's database, to be killed and brought back at the same address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.counted import eventually
from tests.demo_process import HANG_GUARD, ROOT, Demo
from website.demo.system import free_port


@dataclass
class Server:
    """daphne as the demo starts it."""

    folder: str
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        site = {"DJANGO_SETTINGS_MODULE": "website.settings", "WEBSITE_FOLDER": self.folder, "DATABASE_URL": ""}
        words = ["-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "website.asgi:application"]
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env=os.environ | site,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, True)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(HANG_GUARD)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=HANG_GUARD):
                return True
        except ConnectionError:
            return False


@contextmanager
def second_server(site: Demo) -> Iterator[Server]:
    server = Server(str(site.folder))
    server.start()
    try:
        yield server
    finally:
        server.kill()
