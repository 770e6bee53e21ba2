"""R40: how long after a press the last dispatch was: by the database's clock, kept with the stop, and shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from agentstop import stop as stopping
from agentstop.models import Attempt, Decision
from agentstop.runs import Run, begin
from agentstop.stop import Press, StopReport, stop
from agentstop.words.agent_wording import read_press
from tests.reports.acts import page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def send(run: Run, key: str) -> None:
    with run.dispatch("write", connector="tools", key=key) as op:
        op.succeeded("done")


def kept(report: StopReport) -> tuple[datetime, datetime | None]:
    detail = Decision.objects.get(pk=report.decision).detail
    last = detail.get("last_dispatch_at")
    return datetime.fromisoformat(detail["pressed_at"]), datetime.fromisoformat(last) if last else None


def test_where_nothing_was_sent_that_is_said(ann: User) -> None:
    run = begin("Write", owner=ann)
    pressed, last = kept(stop(run.task_id, by=ann))
    assert last is None
    assert "Nothing had been dispatched before the press, and nothing was after it." in page(ann, run)
    assert read_press(pressed, last) in page(ann, run)


def test_the_last_dispatch_before_the_press_is_told_with_its_distance(ann: User) -> None:
    run = begin("Write", owner=ann)
    for key in ("a", "b"):
        send(run, key)
    Attempt.objects.update(passed_at=F("passed_at") - timedelta(seconds=5))
    pressed, last = kept(stop(run.task_id, by=ann))
    assert last == Attempt.objects.order_by("-passed_at").values_list("passed_at", flat=True).first()
    assert last is not None and pressed - last >= timedelta(seconds=5)
    assert read_press(pressed, last) in page(ann, run)
    assert "s before the press; none came after it." in read_press(pressed, last)


def test_what_passes_while_the_stop_waits_for_its_lock_is_told_as_after_the_press(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The honest number: the press was there, and the gate had the lock first."""
    run = begin("Write", owner=ann)
    commit: Callable[[int, Press], StopReport] = stopping._commit

    def later(task_id: int, press: Press) -> StopReport:
        send(run, "just before")
        return commit(task_id, press)

    monkeypatch.setattr(stopping, "_commit", later)
    pressed, last = kept(stop(run.task_id, by=ann))
    assert last is not None and last > pressed
    assert read_press(pressed, last) in page(ann, run)
    assert "s after the press, while the stop was stored; none since." in read_press(pressed, last)
    assert run.call("write", connector="tools", key="next", send=lambda op: "sent").ignored
    assert Attempt.objects.latest("passed_at").passed_at == last
