"""R44, and hosts with something of their own: each is a project in a process of its own, used as its people do.

All of them have a user model of their own, whose key is no number, and a policy that lets nothing inline run; in
`tests/browser/test_hosts.py` a browser looks at them.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection  # noqa: F401  named in a condition

from tests.hosts.process import run


@pytest.mark.parametrize(
    ("settings", "database", "said"),
    [
        ("settings", "default", "Stopped by ann@example.org"),
        ("atomic", "default", "Stopped by ann@example.org"),
        ("routed", "agents", "Stopped by ann@example.org"),
        ("german", "default", "Gestoppt von ann@example.org"),
    ],
)
def test_pages_and_presses_work_in_a_host(settings: str, database: str, said: str, tmp_path: Path) -> None:
    seen = run(tmp_path, settings, "-m", "tests.hosts.drive")
    assert f"stopped stopped active succeeded {database}" in seen
    assert said in seen


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="about PostgreSQL")
def test_pages_and_presses_work_in_a_host_on_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of its own on the server of these tests."""
    server = os.environ["DATABASE_URL"]
    name = f"agentstop_host_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            monkeypatch.setenv("HOST_DATABASE_URL", urlsplit(server)._replace(path=f"/{name}").geturl())
            seen = run(tmp_path, "postgresql", "-m", "tests.hosts.drive")
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert "stopped stopped active succeeded default" in seen
    assert "Stopped by ann@example.org" in seen


def test_a_hosts_own_tests_work_in_its_own_runner(tmp_path: Path) -> None:
    assert "OK" in run(tmp_path, "settings", "-m", "django", "test", "tests.hosts.host_tests", "--pythonpath", ".")
