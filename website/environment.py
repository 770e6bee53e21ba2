"""What the environment says about this site: where its files are, its database, its secret, its names."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parent.parent
LOCAL_HOSTS = "127.0.0.1,localhost,[::1]"


def folder() -> Path:
    """Where the site keeps its files: `WEBSITE_FOLDER`, else `data` in the checkout."""
    return Path(os.environ.get("WEBSITE_FOLDER") or ROOT / "data")


def database() -> dict[str, Any]:
    """The connection for `DATABASE_URL`, else for an SQLite file in the folder; opened as the gate needs it."""
    url = os.environ.get("DATABASE_URL", "")
    if not url:
        url = f"sqlite:///{folder() / 'website.sqlite3'}"
    settings: dict[str, Any] = dict(dj_database_url.parse(url))
    if settings["ENGINE"].endswith("sqlite3"):
        settings["OPTIONS"] = {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
    return settings


def secret_key() -> str:
    """`SECRET_KEY`, else one that was made once and is kept in the folder, readable by its owner alone."""
    given = os.environ.get("SECRET_KEY", "")
    if given:
        return given
    path = folder() / "secret.key"
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(50))
        key = path.read_text().strip()
    except OSError as problem:
        raise ImproperlyConfigured(
            f"The secret key cannot be kept in {path} ({problem.strerror}): set WEBSITE_FOLDER to a folder that can be "
            "written, or SECRET_KEY."
        ) from None
    if not key:
        raise ImproperlyConfigured(f"The file {path} is empty. Delete it to have a new key made, or set SECRET_KEY.")
    return key


def _write_once(path: Path, text: str) -> None:
    """Two processes may start at once: the whole file appears in one step, and the first one counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(number, "w") as file:
            file.write(text)
        os.link(name, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def names(variable: str, default: str = "") -> list[str]:
    """The words of a variable, which stand between commas."""
    return [word.strip() for word in os.environ.get(variable, default).split(",") if word.strip()]


def mailer() -> dict[str, Any]:
    """How mail leaves: by the server of `MAIL_HOST` (with `MAIL_PORT`), else it is written to standard output."""
    host = os.environ.get("MAIL_HOST", "")
    if not host:
        return {"BACKEND": "django.core.mail.backends.console.EmailBackend"}
    options = {"host": host, "port": int(os.environ.get("MAIL_PORT") or 25)}
    return {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}


def old_mailer() -> dict[str, Any]:
    """The same by the settings of Django before 6.1."""
    now = mailer()
    return {"EMAIL_BACKEND": now["BACKEND"], **{f"EMAIL_{k.upper()}": v for k, v in now.get("OPTIONS", {}).items()}}
