"""A host as processes of its own: commands that end, and servers that are ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from website.demo.system import free_port

ROOT = Path(__file__).resolve().parents[2]
HANG_GUARD = 120.0

WSGI = """
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application
class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
make_server("127.0.0.1", int(sys.argv[1]), StaticFilesHandler(get_wsgi_application()), Server).serve_forever()
"""


def environment(folder: Path, settings: str = "settings") -> Mapping[str, str]:
    """Of the host with these settings, whose files are in the folder."""
    more = {"HOST_FOLDER": str(folder), "DJANGO_SETTINGS_MODULE": f"tests.hosts.{settings}", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **more}


def run(folder: Path, settings: str, *arguments: str) -> str:
    """A Python program to its end; what it said. AssertionError where it fails."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment(folder, settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_GUARD,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@contextmanager
def served(folder: Path, settings: str = "settings", *, asgi: bool = True) -> Iterator[str]:
    """The address of the host, migrated, in a server process of its own."""
    run(folder, settings, "-m", "django", "migrate", "--verbosity", "0")
    port = free_port()
    daphne = ["-m", "daphne", "--bind", "127.0.0.1", "--port", str(port), "tests.hosts.asgi:application"]
    words = [sys.executable, *(daphne if asgi else ["-c", WSGI, str(port)])]
    with answering(port, words, ROOT, environment(folder, settings), folder / "server.log") as address:
        yield address


@contextmanager
def answering(
    port: int,
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    probe: str = "/agentstop/healthz",
) -> Iterator[str]:
    """The address of a server on this port, started by these words, from its first answer on."""
    address = f"http://127.0.0.1:{port}"
    with (
        log.open("wb") as told,
        subprocess.Popen(words, cwd=folder, env=environment, stdout=told, stderr=told) as process,
    ):
        try:
            until_it_answers(address + probe, process)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(HANG_GUARD)
            except subprocess.TimeoutExpired:
                process.kill()


def until_it_answers(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server of this process answers."""
    end = time.monotonic() + HANG_GUARD
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=HANG_GUARD).close()  # noqa: S310  our own address
        except OSError:  # refused, reset or gone in the middle
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the host does not answer at {address}")
