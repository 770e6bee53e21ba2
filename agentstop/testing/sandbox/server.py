"""The process around the sandbox: daphne on one port, which tells when it is ready and ends when it is told."""

from __future__ import annotations

import os
import sys
from typing import Any

from daphne.server import Server  # first: it chooses the reactor
from twisted.internet import reactor

from agentstop.testing.sandbox.app import HANG_UP, Sandbox

PARENT_LOOK = 0.5  # seconds between two looks at whether the parent is still there


class SandboxServer(Server):  # type: ignore[misc]  # daphne ships no types
    """daphne, with a way for the program to cut its connection and a sentence where the port is taken."""

    failed = False

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        scope["extensions"] = {HANG_UP: lambda reset: _hang_up(protocol, reset=reset)}
        return super().create_application(protocol, scope)

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        host, number = self.listening_addresses[-1]
        sys.stdout.write(f"sandbox ready http://{host}:{number}\n")
        sys.stdout.flush()

    def listen_error(self, failure: Any) -> None:
        self.failed = True
        sys.stderr.write(f"The sandbox cannot listen: {failure.getErrorMessage()} Pass another --port.\n")
        self.stop()


def serve(sandbox: Sandbox, *, port: int, exit_with_parent: bool, interface: str = "127.0.0.1") -> int:
    """Serve until SIGTERM or SIGINT, or until the parent is gone; the exit code. It has no login."""
    server = SandboxServer(sandbox, endpoints=[f"tcp:port={port}:interface={interface}"], verbosity=0)
    loop: Any = reactor
    loop.callWhenRunning(sandbox.start)
    loop.addSystemEventTrigger("before", "shutdown", sandbox.stop)
    if exit_with_parent:
        loop.callWhenRunning(_watch_parent, os.getppid())
    server.run()
    return 1 if server.failed else 0


def _hang_up(protocol: Any, *, reset: bool) -> None:
    channel = protocol.channel
    if channel is None:
        return  # the client has left already
    if reset:
        channel.transport.abortConnection()
    else:
        channel.loseConnection()


def _watch_parent(parent: int) -> None:
    loop: Any = reactor
    if os.getppid() != parent:
        loop.stop()
    else:
        loop.callLater(PARENT_LOOK, _watch_parent, parent)
