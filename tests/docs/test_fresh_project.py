"""The quickstart followed to the letter: in a project that `startproject` made, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from agentstop.testing.sandbox.process import RunningSandbox
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.walk import OWN, SANDBOX, python

[QUICKSTART] = [page for page in DOCS if page.name == "quickstart.md"]
PATIENCE = 120.0  # seconds after which a command has hung


def test_the_quickstart_works_in_a_fresh_project(tmp_path: Path, sandbox_process: RunningSandbox) -> None:
    sandbox_process.client.reset()
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "DATABASE_URL": ""}
    environment["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
    succeeds(tmp_path, environment, "-m", "django", "startproject", "mysite", ".")
    for block in python(QUICKSTART):
        if block.title.endswith(OWN):
            written = tmp_path / block.title
            existing = "" if block.title.endswith("asgi.py") else written.read_text()
            written.write_text(existing + "\n" + block.text.replace(SANDBOX, sandbox_process.address))
    succeeds(tmp_path, environment, "manage.py", "migrate")
    succeeds(tmp_path, environment, "manage.py", "check", "--fail-level", "WARNING")
    succeeds(tmp_path, environment, "-m", "tests.docs.walk", str(QUICKSTART), sandbox_process.address)
    succeeds(tmp_path, environment, "-m", "tests.docs.look")


def succeeds(folder: Path, environment: Mapping[str, str], *arguments: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"


def test_every_command_of_the_documents_exists() -> None:
    told = [block for page in DOCS for block in blocks(page) if block.language == "sh"]
    lines = [line.split() for block in told for line in block.text.splitlines()]
    assert lines
    for line in lines:
        if line[:2] == ["python", "manage.py"]:
            found = list(ROOT.glob(f"agentstop/management/commands/{line[2]}.py"))
            assert found or line[2] in {"migrate", "check", "shell", "collectstatic", "createsuperuser", "runserver"}, (
                line
            )
        elif line[:2] == ["python", "-m"]:
            assert (ROOT / line[2].replace(".", "/")).exists() or (ROOT / f"{line[2].replace('.', '/')}.py").exists()
        else:
            assert line[0] in {"pip", "make", "git", "daphne", "django-admin"}, line
