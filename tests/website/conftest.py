"""The web application on the test database, with its own settings where they differ from those of other tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

with mock.patch.dict(os.environ, {"SECRET_KEY": "tests only"}):  # so that reading the site's settings writes no file
    from website import settings as site

OWN = (
    "MIDDLEWARE",
    "TEMPLATES",
    "ROOT_URLCONF",
    "STATICFILES_DIRS",
    "LOGIN_URL",
    "LOGIN_REDIRECT_URL",
    "X_FRAME_OPTIONS",
)


@pytest.fixture(autouse=True)
def website(settings: Settings, transactional_db: None) -> Settings:
    """The site, with a provider at an address where nobody is called."""
    for name in OWN:
        setattr(settings, name, getattr(site, name))
    settings.SANDBOX_ADDRESS = "http://127.0.0.1:9"
    settings.NOTES_ADDRESS = ""
    return settings


@pytest.fixture
def browser(client: Client, ann: User) -> Client:
    """Ann's, logged in."""
    client.force_login(ann)
    return client


@pytest.fixture
def wishes() -> Callable[..., dict[str, Any]]:
    """What the start form sends."""

    def make(**changed: Any) -> dict[str, Any]:
        return {"topic": "figures", "channel": "#team", "pace": "0", "troubled": "report", "troubles": [], **changed}

    return make
