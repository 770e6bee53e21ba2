"""Django settings of the tests: SQLite in a file, or the server named by `DATABASE_URL`."""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dj_database_url
import django

SECRET_KEY = "tests only"
DEBUG = False
USE_TZ = True
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # tests log in often

TEMPORARY = Path(tempfile.gettempdir())


def database(url: str) -> dict[str, Any]:
    """The connection for a URL; a SQLite file is opened in the way that the gate's promises need."""
    settings: dict[str, Any] = dict(dj_database_url.parse(url))
    if settings["ENGINE"].endswith("sqlite3"):
        settings["OPTIONS"] = {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
        # A file, since threads and processes race on it; named by process, since two runs may go at once.
        settings["TEST"] = {"NAME": str(TEMPORARY / f"agentstop-test-{os.getpid()}.sqlite3")}
    return settings


DATABASES = {"default": database(os.environ.get("DATABASE_URL") or f"sqlite:///{TEMPORARY / 'agentstop.sqlite3'}")}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "agentstop",
    "website.demo",
]

if find_spec("django_tasks_db"):
    INSTALLED_APPS += ["django_tasks_db"] if django.VERSION >= (6, 0) else ["django_tasks", "django_tasks_db"]
    OF_TASKS = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
    TASKS = {
        "default": {"BACKEND": "django_tasks_db.DatabaseBackend"},
        "immediate": {"BACKEND": f"{OF_TASKS}.backends.immediate.ImmediateBackend"},
    }
    MIGRATION_MODULES = {"django_tasks_db": None}  # its table at once instead of in twenty steps

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
SANDBOX_ADDRESS = NOTES_ADDRESS = BROKER = ""
HAS_DJANGO_TASKS = False
if django.VERSION >= (6, 1):  # before, the test environment chooses it by itself
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
