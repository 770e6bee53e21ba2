"""`healthz`: whether this process can tell the truth, for load balancers that have no login."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from agentstop import database, reconcile
from agentstop.models import Operation
from agentstop.runs import begin

pytestmark = pytest.mark.django_db(transaction=True)


def asked() -> tuple[int, dict[str, str]]:
    answer = Client().get(reverse("agentstop:healthz"))
    assert "no-store" in answer["Cache-Control"]
    return answer.status_code, answer.json()


def test_it_answers_without_a_login() -> None:
    assert asked() == (200, {"database": "ok", "look_ups": "running"})


def test_where_nothing_does_the_follow_up_work_it_says_so(tools: None) -> None:
    begin("Report").prepare("send", connector="tools", key="k")
    Operation.objects.update(follow_up_at=database.now() - timedelta(minutes=5))
    assert asked() == (200, {"database": "ok", "look_ups": "not running"})


def test_a_database_that_does_not_answer_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise OperationalError("connection refused on 10.0.0.7")

    monkeypatch.setattr(reconcile, "overdue", broken)
    assert asked() == (503, {"database": "does not answer", "look_ups": "not known"})


def test_it_is_read_only() -> None:
    assert Client().post(reverse("agentstop:healthz")).status_code == 405
    assert Client().head(reverse("agentstop:healthz")).status_code == 200
