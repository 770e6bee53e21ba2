"""Connections on which a committed stop could be missed or lost: refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections

from agentstop.exceptions import UnsafeDatabase
from agentstop.models import Task
from agentstop.runs import begin
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)

UNSAFE: dict[str, list[tuple[dict[str, Any], str]]] = {
    "postgresql": [
        ({"options": "-c synchronous_commit=off"}, "synchronous_commit"),
        ({"options": r"-c default_transaction_isolation=repeatable\ read"}, "isolation level 'repeatable read'"),
        ({"options": "-c default_transaction_isolation=serializable"}, "isolation level 'serializable'"),
    ],
    "sqlite": [
        ({"transaction_mode": None}, "IMMEDIATE"),
        ({"transaction_mode": "DEFERRED"}, "IMMEDIATE"),
        ({"transaction_mode": "EXCLUSIVE"}, "IMMEDIATE"),
    ],
}


@pytest.mark.parametrize(("options", "words"), UNSAFE[connection.vendor])
def test_an_unsafe_connection_begins_nothing(options: dict[str, Any], words: str, in_thread: InThread) -> None:
    def begins() -> str:
        wrapper = connections["default"]  # of this thread, and closed with it
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**wrapper.settings_dict["OPTIONS"], **options}}
        with pytest.raises(UnsafeDatabase) as raised:
            begin("a task")
        return str(raised.value)

    assert words in in_thread(begins).result(HANG_GUARD)
    assert not Task.objects.exists()
