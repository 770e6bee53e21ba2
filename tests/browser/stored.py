"""Does something in the database of a running demo, in a process of its own with the site's settings."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.demo_process import HANG_GUARD, ROOT, Demo

START = """
import django
django.setup()
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from tests import crowd
from tests.timeline import scene
"""
STORE = """
owner = get_user_model().objects.get(username={name!r})
print({of}.{what}(owner, timezone.now() - timedelta(minutes=1)).pk)
"""
HEAR = """
from agentstop import bodies, database, settle
from agentstop.models import Operation
from agentstop.states import Claim, Source
operation = Operation.objects.get(task={task}, action={action!r})
for claim, source, body in {words!r}:
    heard = settle.Heard(Claim(claim), Source(source), database.now(), body=bodies.store(body))
    settle.record(operation.pk, [heard])
print("heard")
"""


def stored(site: Demo, what: str, name: str = "ann", of: str = "scene") -> int:
    """The task that this function of `tests.timeline.scene` or `tests.crowd` has stored for a person of the demo."""
    return int(_on(site, STORE.format(what=what, name=name, of=of)))


def heard(site: Demo, task: int, action: str, *words: tuple[str, str, object]) -> None:
    """Record that this was heard of the one operation with that action: claim, source and body of each."""
    assert _on(site, HEAR.format(task=task, action=action, words=words)) == "heard"


def _on(site: Demo, code: str) -> str:
    """The last word that the code prints."""
    site_environment = {"DJANGO_SETTINGS_MODULE": "website.settings", "WEBSITE_FOLDER": str(site.folder)}
    done = subprocess.run(
        [sys.executable, "-c", START + code],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": "", "PYTHONPATH": str(ROOT)} | site_environment,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]
