"""The two forms of `manage.py demo`: for people, and with --check for programs."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from django.db import connection

from tests.demo_process import HANG_GUARD, ROOT, Demo, command, demo, environment, gone
from tests.redis_server import redis_program

LINES = """\
    caller outcome: ignored
    external writes after stop: 1
    old context entries: 0
    new context: ["fresh result"]
"""


def run(*words: str, database_url: str = "", limit: float = HANG_GUARD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=ROOT, env=environment(database_url), capture_output=True, text=True, timeout=limit
    )


@pytest.fixture
def own_database(db: None) -> Iterator[str]:
    """`DATABASE_URL` of an empty database on the server of these tests; on SQLite the demo makes its own file."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        yield ""
        return
    login = settings["USER"] + (f":{settings['PASSWORD']}" if settings["PASSWORD"] else "")
    server = f"postgres://{login}@{settings['HOST']}:{settings['PORT']}"
    name = f"{settings['NAME']}_demo_{os.getpid()}"
    with psycopg.connect(f"{server}/{settings['NAME']}", autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')  # a name cannot be a parameter
        yield f"{server}/{name}"
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def test_every_promise_is_kept(own_database: str) -> None:
    done = run("--check", database_url=own_database, limit=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert LINES in done.stdout
    assert "nothing passed the gate after the stop: 0 of 8" in done.stdout
    assert re.search(r"^All \d+ kept\.$", done.stdout, re.MULTILINE)
    assert done.stderr == ""


def test_it_starts_again_on_the_same_data_and_leaves_no_process(tmp_path: Path, own_database: str) -> None:
    with demo(tmp_path, own_database) as first:
        people, children = first.people, first.children()
        assert all(f"password {word}" in first.greeting for word in people.values())
        assert first.address in first.greeting
        assert httpx.get(f"{first.address}/login/", trust_env=False).status_code == 200
        assert len(children) == (6 if redis_program() else 4)
        provider = sandbox_of(first)
        code, said = first.end(signal.SIGTERM)
        assert (code, said.strip()) == (0, "Ended.")
        assert gone(children)
    with demo(tmp_path, own_database) as second:
        assert second.people == people
        assert sandbox_of(second) == provider
        children = second.children()
        second.end(signal.SIGKILL)
        assert gone(children), "processes outlived the one that started them"
    for secret in ("people.json", "secret.key"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600


def test_when_one_process_dies_it_says_so_and_ends_the_others(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        second = run("--folder", str(tmp_path), "--port", "0")
        assert one_sentence(second).startswith(f"Another demo is running on {tmp_path}: end it, or name another folder")
        children = running.children()
        [worker] = running.children("demo_worker")
        os.kill(worker, signal.SIGKILL)
        code, said = running.wait()
        assert code == 1
        assert "The worker ended with status -9" in said
        assert "Traceback" not in said
        assert gone(children)


def test_a_taken_port_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("--port", str(port), "--folder", str(tmp_path))
    assert one_sentence(done).startswith(f"Port {port} cannot be used (Address already in use): name another one")


def test_a_port_that_does_not_exist_is_told_in_one_sentence(tmp_path: Path) -> None:
    assert "no such port" in one_sentence(run("--port", "70000", "--folder", str(tmp_path)))


def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the place of a folder")
    for folder in (file, file / "below"):
        assert one_sentence(run("--folder", str(folder))).startswith(f"The folder {folder} cannot be written (")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; a file in the folder's place is tested above")
def test_a_read_only_folder_is_told_in_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in one_sentence(run("--folder", str(tmp_path)))


def test_an_unreachable_database_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"postgres://nobody@127.0.0.1:{closed.getsockname()[1]}/nothing"
        done = run("--folder", str(tmp_path), "--port", "0", database_url=url)
    assert one_sentence(done).startswith("The database nothing cannot be used: ")


def test_an_old_python_is_told_in_one_sentence() -> None:
    program = "import runpy, sys; sys.version_info = (3, 9, 0); runpy.run_path('manage.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, "demo"], cwd=ROOT, capture_output=True, text=True)
    assert one_sentence(done) == "This needs Python 3.11 or newer, and this is Python 3.9."


def test_without_its_packages_it_says_how_to_get_them() -> None:
    done = subprocess.run([sys.executable, "-S", "-I", "manage.py", "demo"], cwd=ROOT, capture_output=True, text=True)
    assert "make demo" in one_sentence(done)


def sandbox_of(running: Demo) -> str:
    """The address of the provider, by which pages link to what it made."""
    found = re.search(r"by the provider itself: +(\S+)", running.greeting)
    assert found
    return found[1]


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What it said as an error: one line, and no traceback."""
    assert done.returncode == 1, done.stdout + done.stderr
    [line] = done.stderr.strip().splitlines()
    return line
