"""A server on a real socket that answers as a test tells it, and writes down what reached it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GUARD = 60.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as the server got it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back; `reset` cuts the connection instead, `wait` holds the answer back until it is set."""

    status: int = 200
    data: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    reset: bool = False
    wait: threading.Event | None = None


class Server:
    """Answers by `script`, one reply after another, the last for all that follow; each write is an effect."""

    def __init__(self) -> None:
        self.script: list[Reply | Callable[[Arrived], Reply]] = [Reply()]
        self.arrived: list[Arrived] = []
        self.came = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.address = ""

    @property
    def writes(self) -> list[Arrived]:
        return [each for each in self.arrived if each.method not in ("GET", "HEAD", "OPTIONS")]

    def wait(self) -> None:
        """Until one more request has arrived."""
        assert self.came.acquire(timeout=GUARD), "no request came"

    def next(self, arrived: Arrived) -> Reply:
        with self._lock:
            self.arrived.append(arrived)
            reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self.came.release()
        return reply if isinstance(reply, Reply) else reply(arrived)


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.next(Arrived(self.command, self.path, headers, self.rfile.read(length)))
            if reply.wait is not None:
                assert reply.wait.wait(GUARD), "the test never let the answer go"
            if reply.reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self.close_connection = True
                self.connection.close()
                return
            self.told(reply)

        def told(self, reply: Reply) -> None:
            content = json.dumps(reply.data).encode() if reply.content is None else reply.content
            self.send_response(reply.status)
            told = {"content-type": "application/json", "content-length": str(len(content)), **reply.headers}
            for name, value in told.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(b"" if self.command == "HEAD" else content)
            except OSError:
                self.close_connection = True  # the client has read enough

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.answer
            raise AttributeError(name)

        def log_message(self, *_: Any) -> None: ...

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (ConnectionError, ValueError):
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                pass  # the connection was reset on purpose

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.address = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(GUARD)
