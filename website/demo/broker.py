"""A Redis for the demo's Celery jobs, from the system's program: behind a socket in a folder of its own, kept nowhere.

python -m website.demo.broker      ends it when it is ended itself
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

PROGRAMS = ("redis-server", "valkey-server")
READY = "broker ready "
PATIENCE = 30.0  # seconds


def program() -> str | None:
    """Of Redis or Valkey on the PATH, or None; None where Celery is not installed, too."""
    if find_spec("celery") is None or find_spec("redis") is None:
        return None
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def main() -> int:
    found = program()
    if found is None:
        return 1
    with tempfile.TemporaryDirectory(prefix="agentstop-") as folder:  # short: a socket's path may not be long
        socket = Path(folder) / "redis.sock"
        words = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen([found, *words], stdout=subprocess.DEVNULL)  # noqa: S603  found on the PATH
        signal.signal(signal.SIGTERM, lambda number, frame: _end(server, number, frame))
        _until(socket)
        print(f"{READY}redis+socket://{socket}", flush=True)  # noqa: T201  the demo waits for it
        return server.wait()


def _end(server: subprocess.Popen[bytes], number: int, frame: FrameType | None) -> None:
    server.terminate()


def _until(socket: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while not socket.exists() and time.monotonic() < give_up:
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
