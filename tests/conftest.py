"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

BROWSER = Path(__file__).parent / "browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BROWSER in item.path.parents:
            item.add_marker("browser")


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """`DATABASE_URL` of the test database, for a child process that runs on `tests.settings`."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    login = settings["USER"] + (f":{settings['PASSWORD']}" if settings["PASSWORD"] else "")
    return f"postgres://{login}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"
