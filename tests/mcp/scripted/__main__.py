"""`python -m tests.mcp.scripted stdio|http FOLDER`: over HTTP it prints its port, and ends with its standard input.

Over HTTP the first part of the path names the folder within FOLDER that it works in.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.mcp.scripted.desk import CANCELLED, NEW, OLD, Desk, Lost, Message, answered, version

desks: dict[Path, Desk] = {}
lock = threading.Lock()


def desk_of(folder: Path) -> Desk:
    with lock:
        return desks.setdefault(folder, Desk(folder))


class Stdio:
    """One line a message. It never answers a call that was given up."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def run(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            threading.Thread(target=self._answer, args=(request,), daemon=True).start()
        os._exit(0)

    def _answer(self, request: Message) -> None:
        if request.get("method") != "tools/call":
            reply = answered(self.desk, request)
            if reply is not None:
                self._say(request, reply)
            return
        try:
            self.desk.call(request, lambda reply: self._say(request, reply), threading.Event())
        except Lost:
            if request["params"].get("arguments", {}).get("how") == "lose":
                os._exit(3)  # else it is silent: others use this connection too

    def _say(self, request: Message, reply: Message) -> None:
        with lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}) + "\n")
            sys.stdout.flush()


class Http(BaseHTTPRequestHandler):
    """A stream of events for each call. 2026-07-28: a closed stream is a cancel; before, a cancel ends the stream."""

    root: Path
    wfile: Any

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        request = json.loads(self.rfile.read(length))
        request["login"] = self.headers.get("authorization", "")
        desk = desk_of(self.root / self.path.split("/")[1])
        if request.get("method") == "tools/call":
            self._call(desk, request)
            return
        reply = answered(desk, request)
        content = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), **(reply or {})}).encode() if reply else b""
        self.send_response(200 if reply else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _call(self, desk: Desk, request: Message) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        given_up, over = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, args=(request, given_up, over), daemon=True).start()
        try:
            desk.call(request, lambda reply: self._event(request, reply), given_up)
            if given_up.is_set() and version(request) == OLD:
                self._event(request, {"error": {"code": CANCELLED, "message": "Request cancelled"}})
        except Lost:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        except OSError:
            pass  # the caller has left
        finally:
            over.set()

    def _watch(self, request: Message, given_up: threading.Event, over: threading.Event) -> None:
        while not over.wait(0.02):
            try:
                gone = bool(select.select([self.connection], [], [], 0)[0]) and not self.connection.recv(1)
            except (OSError, ValueError):
                gone = True
            if gone:
                if version(request) == NEW:
                    given_up.set()
                return

    def _event(self, request: Message, reply: Message) -> None:
        told = json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply})
        self.wfile.write(f"event: message\ndata: {told}\n\n".encode())
        self.wfile.flush()

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: Any) -> None: ...

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    folder = Path(sys.argv[2])
    if sys.argv[1] == "stdio":
        Stdio(desk_of(folder)).run()
        return
    Http.root = folder
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)  # noqa: T201  whoever started it reads this
    server.serve_forever()


if __name__ == "__main__":
    main()
