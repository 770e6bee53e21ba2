"""Django settings of the measuring processes: the database of `DATABASE_URL`, with connections that stay open."""

from __future__ import annotations

import os
from typing import Any

from tests.settings import database

SECRET_KEY = "measurements only"  # noqa: S105  signs nothing that leaves this machine
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "agentstop"]
DATABASES = {"default": database(os.environ["DATABASE_URL"]) | {"CONN_MAX_AGE": None}}
if os.environ.get("BENCH_PREPARED"):
    DATABASES["default"]["OPTIONS"] = {"server_side_binding": True, "prepare_threshold": 5}
AGENTSTOP_CONNECTORS: dict[str, dict[str, Any]] = {"tools": {}}
