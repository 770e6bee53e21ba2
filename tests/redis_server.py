"""A Redis of one's own, from the system's program: in a temporary folder, gone at the end. Needs no Django."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

SERVERS = ("redis-server", "valkey-server")
PATIENCE = 60.0  # seconds after which a server that does not answer has hung


def redis_program() -> str | None:
    """On the PATH, or None."""
    return next(filter(None, map(shutil.which, SERVERS)), None)


@contextmanager
def running_redis() -> Iterator[str]:
    """The path of the socket of a fresh server, which listens nowhere else."""
    program = redis_program()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="agentstop-redis-") as folder:
        path = f"{folder}/redis.sock"
        words = ["--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL) as server:
            try:
                _until_it_answers(path)
                yield path
            finally:
                server.terminate()


def _until_it_answers(path: str) -> None:
    give_up = time.monotonic() + PATIENCE
    with redis.Redis(unix_socket_path=path) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                assert time.monotonic() < give_up, "redis never answered"
                time.sleep(0.02)
