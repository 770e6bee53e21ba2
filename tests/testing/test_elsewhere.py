"""The kit in somebody else's project: the wheel is built, installed apart, and the page's own tests run there (R41)."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.docs.pages import DOCS, ROOT, blocks

[TESTING] = [page for page in DOCS if page.name == "testing.md"]
PATIENCE = 240.0
SETTINGS = """
SECRET_KEY = "tests only"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "agentstop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "project.sqlite3",
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
        "TEST": {"NAME": "test.sqlite3"},
    }
}
"""
CONFIGURATION = "[pytest]\nDJANGO_SETTINGS_MODULE = mysite.settings\ndjango_find_project = false\npythonpath = .\n"


def test_the_tests_of_the_page_run_in_a_project_with_the_wheel(tmp_path: Path) -> None:
    project, installed = tmp_path / "project", tmp_path / "installed"
    install(tmp_path, installed)
    for block in blocks(TESTING):
        if block.title.endswith(".py"):
            write(project / block.title, block.text)
    for package in ("mysite", "tests"):
        write(project / package / "__init__.py", "")
    write(project / "mysite" / "settings.py", SETTINGS)
    write(project / "pytest.ini", CONFIGURATION)
    told = run(project, installed, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:randomly")
    assert "2 passed" in told
    assert "stale results admitted: 0" in told
    assert "P6 effect done, response not delivered   before  still active" in told


def test_the_plugin_imports_nothing_before_it_is_asked(tmp_path: Path) -> None:
    """It is loaded in every project that has agentstop, also in those without Django settings."""
    installed = tmp_path / "installed"
    install(tmp_path, installed)
    write(
        tmp_path / "project" / "test_plain.py", "import sys\n\ndef test_it():\n    assert 'django' not in sys.modules\n"
    )
    told = run(tmp_path / "project", installed, "-m", "pytest", "-q", "-p", "no:django", "-p", "no:randomly")
    assert "1 passed" in told


def install(folder: Path, installed: Path) -> None:
    """The wheel unpacked, as an installer would, with its entry points."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(project: Path, installed: Path, *arguments: str) -> str:
    """In the project's folder; the wheel stands before this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "DATABASE_URL": ""}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    where = subprocess.run(
        [sys.executable, "-c", "import agentstop; print(agentstop.__file__)"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
