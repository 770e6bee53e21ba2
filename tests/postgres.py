"""A PostgreSQL of one's own, from the system's binaries: made in a temporary folder, gone at the end.

with postgres() as url: ...
python -m tests.postgres [PORT]     # prints the URL and serves until Ctrl-C
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

DURABLE = {"max_connections": "200"}
# A test that ends a server leaves the operating system alive, so nothing is lost without fsync.
QUICK = DURABLE | {"fsync": "off", "full_page_writes": "off"}

INITDB = ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")

LOOPBACK = "127.0.0.1"
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


class PostgresMissing(RuntimeError):
    """This system has no PostgreSQL server program."""


class Identity(TypedDict, total=False):
    """Who runs the server: `subprocess` arguments."""

    user: int
    group: int
    extra_groups: list[int]


def find_binaries() -> Path:
    """The folder of `initdb` and `pg_ctl`: on the PATH, else the newest that the system's packages brought."""
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    found = [folder for place in PLACES for folder in Path("/").glob(place[1:]) if (folder / "initdb").exists()]
    if not found:
        raise PostgresMissing("No initdb on the PATH or in /usr/lib/postgresql. Try: apt-get install postgresql")
    return max(found, key=lambda folder: [int(digits) for digits in folder.parent.name.split(".") if digits.isdigit()])


@contextmanager
def postgres(port: int | None = None, settings: Mapping[str, str] = DURABLE, address: str = LOOPBACK) -> Iterator[str]:
    """The URL of a fresh server on this address of ours, with an empty database `agentstop`."""
    binaries = find_binaries()
    identity = unprivileged()
    with tempfile.TemporaryDirectory(prefix="agentstop-pg-") as folder:
        if "user" in identity:
            os.chown(folder, identity["user"], identity["group"])
        data = f"{folder}/data"
        number = str(port or free_port())
        run(identity, binaries / "initdb", "-D", data, "-U", "agentstop", *INITDB)
        options = {**settings, "port": number, "listen_addresses": address, "unix_socket_directories": folder}
        with Path(data, "postgresql.auto.conf").open("a") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in options.items())
        if address != LOOPBACK:  # in a network namespace that a test has made
            with Path(data, "pg_hba.conf").open("a") as allowed:
                allowed.write("host all all 10.0.0.0/8 trust\n")
        try:
            run(identity, binaries / "pg_ctl", "start", "-w", "-t", "60", "-D", data, "-l", f"{folder}/log")
            run(identity, binaries / "createdb", "-h", folder, "-p", number, "-U", "agentstop", "agentstop")
            yield f"postgres://agentstop@{address}:{number}/agentstop"
        finally:
            stop = [str(binaries / "pg_ctl"), "stop", "-m", "immediate", "-D", data]
            subprocess.run(stop, capture_output=True, check=False, cwd="/", **identity)


def unprivileged() -> Identity:
    """PostgreSQL refuses to run as root, so root lends it another user."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        number: int = probe.getsockname()[1]
        return number


def run(identity: Identity, program: Path, *arguments: str) -> None:
    # A server keeps inherited pipes open, so what is said goes to a file.
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        command = [str(program), *arguments]
        done = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False, cwd="/", **identity)
        if done.returncode:
            said.seek(0)
            raise RuntimeError(f"{program.name} failed: {said.read().strip()}")


if __name__ == "__main__":
    with postgres(int(sys.argv[1]) if sys.argv[1:] else None) as address:
        sys.stdout.write(f"DATABASE_URL={address}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
