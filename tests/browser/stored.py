"""Stores a scene in the database of a running demo, in a process of its own with the site's settings."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.demo_process import HANG_GUARD, ROOT, Demo

CODE = """
import django
django.setup()
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from tests.timeline import scene
owner = get_user_model().objects.get(username={name!r})
print(scene.{what}(owner, timezone.now() - timedelta(minutes=1)).pk)
"""


def stored(site: Demo, what: str, name: str = "ann") -> int:
    """The task that this function of `tests.timeline.scene` has stored for a person of the demo."""
    site_environment = {"DJANGO_SETTINGS_MODULE": "website.settings", "WEBSITE_FOLDER": str(site.folder)}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(what=what, name=name)],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": "", "PYTHONPATH": str(ROOT)} | site_environment,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])
