"""A proxy that keeps its connection to the provider when its client has closed the other one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.conftest import HANG_GUARD


class Swallowing:
    """`left`: a client has closed before it had its answer, which the provider does not hear of."""

    def __init__(self, upstream: str) -> None:
        where = urlsplit(upstream)
        self._upstream = (where.hostname or "", where.port or 0)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.left = threading.Event()
        self._open: list[socket.socket] = []
        self._pool = ThreadPoolExecutor(32)
        self._pool.submit(self._accept)

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self._listening.accept()
                provider = socket.create_connection(self._upstream, HANG_GUARD)
                provider.settimeout(None)
                self._open += [client, provider]
                self._pool.submit(self._ask, client, provider)
                self._pool.submit(self._answer, client, provider)

    def _ask(self, client: socket.socket, provider: socket.socket) -> None:
        with suppress(OSError):
            while part := client.recv(65_536):
                provider.sendall(part)
        self.left.set()  # and the provider's side stays open

    def _answer(self, client: socket.socket, provider: socket.socket) -> None:
        with suppress(OSError):
            while part := provider.recv(65_536):
                with suppress(OSError):
                    client.sendall(part)

    def close(self) -> None:
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._pool.shutdown()


@contextmanager
def swallowing(upstream: str) -> Iterator[Swallowing]:
    proxy = Swallowing(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
