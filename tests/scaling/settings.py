"""The website, with its follow-up work left to Celery. What differs between processes is read from the environment."""

from __future__ import annotations

import json
import os

from website.settings import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # it is not what is tried here
AGENTSTOP_CELERY_APP = "tests.scaling.jobs.app"
vars().update({f"AGENTSTOP_{name}": value for name, value in json.loads(os.environ.get("QUICK", "{}")).items()})
