"""Settings of the web application. What differs between places is read from the environment."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import django

from agentstop.testing.sandbox.connector import sandbox_connector
from website import environment
from website.demo.notes_connector import notes_connector

SECRET_KEY = environment.secret_key()
DEBUG = False
ALLOWED_HOSTS = environment.names("ALLOWED_HOSTS", environment.LOCAL_HOSTS)
CSRF_TRUSTED_ORIGINS = environment.names("CSRF_TRUSTED_ORIGINS")
DATABASES = {"default": environment.database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]  # the reader's, as the browser asks for it
LOCALE_PATHS = [environment.ROOT / "website" / "locale"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "agentstop",
    "website.demo",
]

# The queues that the demo's agents can hand their steps to.
BROKER = os.environ.get("DEMO_BROKER", "")  # of Celery, where one runs
HAS_DJANGO_TASKS = find_spec("django_tasks_db") is not None
if HAS_DJANGO_TASKS:
    INSTALLED_APPS += ["django_tasks_db"] if django.VERSION >= (6, 0) else ["django_tasks", "django_tasks_db"]
    TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "website.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "website.zone.ReaderZoneMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [environment.ROOT / "templates"],
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

ROOT_URLCONF = "website.urls"
ASGI_APPLICATION = "website.asgi.application"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "tasks"
LOGOUT_REDIRECT_URL = "login"
X_FRAME_OPTIONS = "DENY"

STATIC_URL = "static/"
STATICFILES_DIRS = [environment.ROOT / "static"]

# Behind a proxy that speaks TLS: HTTPS=1, with CSRF_TRUSTED_ORIGINS=https://the.name
if os.environ.get("HTTPS"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True

AGENTSTOP_DEADLINE = float(os.environ.get("SEND_DEADLINE", "30"))
AGENTSTOP_TAKES_INPUT = True  # the demo's agent does
AGENTSTOP_RUNNER = "website.demo.queue.start"  # what New run on a task's page starts an agent with

# The demo's providers, where they run. Real ones stand beside them.
SANDBOX_ADDRESS = os.environ.get("SANDBOX_ADDRESS", "")
NOTES_ADDRESS = os.environ.get("NOTES_ADDRESS", "")  # an MCP server
AGENTSTOP_CONNECTORS = {
    **({"sandbox": sandbox_connector(SANDBOX_ADDRESS)} if SANDBOX_ADDRESS else {}),
    **({"notes": notes_connector(NOTES_ADDRESS)} if NOTES_ADDRESS else {}),
}

# Mail to who had left when an unknown outcome was settled. Without a server for it, it goes to the log of the worker.
MAILS_SETTLEMENTS = True
SITE_ADDRESS = os.environ.get("SITE_ADDRESS", "").rstrip("/")  # as in https://the.name: for the links in mails
DEFAULT_FROM_EMAIL = os.environ.get("MAIL_FROM", "agentstop@localhost")
if django.VERSION >= (6, 1):
    MAILERS = {"default": environment.mailer()}
else:
    vars().update(environment.old_mailer())

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {name: {"level": "INFO"} for name in ("agentstop", "website", "daphne")},
}
