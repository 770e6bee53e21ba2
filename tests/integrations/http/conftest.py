"""A server, a connector for it whose key is honoured, and one of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from agentstop.providers.base import Capability, SubmitIdempotency
from tests.integrations.http.server import Server, serving

HONOURED = Capability(submit=SubmitIdempotency.KEY, key_life=timedelta(days=1))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def connectors(settings: Settings, ended: None) -> None:
    """`keyed` honours the key; of `plain` nothing is claimed."""
    settings.AGENTSTOP_CONNECTORS = {
        "keyed": {
            "PROVIDER": "agentstop.providers.claimed.ClaimedProvider",
            "OPTIONS": {"actions": {}, "others": HONOURED},
        },
        "plain": {},
    }
