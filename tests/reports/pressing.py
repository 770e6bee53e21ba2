"""A web process of its own in which somebody presses Stop, to be killed while it answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentstop.runs import Run
from tests.conftest import HANG_GUARD

ROOT = Path(__file__).resolve().parent.parent.parent

PRESS = """
import django; django.setup()
import sys
from django.contrib.auth.models import User
from django.test import Client
import agentstop.stop
{before}
client = Client()
client.force_login(User.objects.get(username="ann"))
print(client.post("/tasks/{task}/stop/", {{"run": {run}, "reason": "from the page"}}).status_code, flush=True)
sys.stdin.read()
"""
IN_THE_MIDDLE = """
def held(*args, **kwargs):
    print("not committed", flush=True)
    sys.stdin.read()
agentstop.stop.wake.notify_on_commit = held  # the last thing before the commit
"""


@contextmanager
def web_process(database_url: str, run: Run, before: str = "") -> Iterator[str]:
    """A process that answers a press of Stop, until it has said how far it is; then it is killed."""
    code = PRESS.format(task=run.task_id, run=run.number, before=before)
    environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, **pipes) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
            process.wait(HANG_GUARD)
