"""The settings that all hosts start from: what `startproject` writes, shortened, and agentstop."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("error", category=DeprecationWarning, module=r"agentstop(\.|$)")

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ["HOST_FOLDER"])

AUTH_USER_MODEL = "people.Person"
SECRET_KEY = "tests only"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "agentstop",
    "tests.hosts.people",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "tests.hosts.policy.PolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [HERE / "templates"],
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

ROOT_URLCONF = "tests.hosts.urls"
STATIC_URL = "/static/"
STATICFILES_DIRS = [HERE.parent / "embedding" / "vendor", HERE.parents[1] / "static" / "vendor"]


def database(name: str, **more: Any) -> dict[str, Any]:
    """An SQLite file, opened as the gate needs it."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": FOLDER / f"{name}.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
        "TEST": {"NAME": FOLDER / f"test_{name}.sqlite3"},
        **more,
    }


DATABASES = {"default": database("host")}

AGENTSTOP_CONNECTORS: dict[str, Any] = {"tools": {}}
LOGIN_URL = "/admin/login/"
