"""The worker's loop: what one provider does delays nothing at others, and a fault ends no worker (R21, R43)."""

from __future__ import annotations

import logging
import threading

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from agentstop import reconcile, wake
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.turns import FollowUps
from tests.conftest import HANG_GUARD, InThread


def under_way(ann: User, sandbox: SandboxClient, in_thread: InThread, text: str) -> Run:
    """A run whose report is at the provider, accepted and not done."""
    sandbox.hold("working", text)
    run = begin(text, owner=ann)
    in_thread(run.call, "report.create", {"text": text}, key="report", connector="sandbox")
    sandbox.wait("working", text)
    return run


def test_a_provider_that_hangs_delays_nothing_else(ann: User, sandbox: SandboxClient, in_thread: InThread) -> None:
    hanging = under_way(ann, sandbox, in_thread, "hangs")
    other = under_way(ann, sandbox, in_thread, "is cancelled")
    sandbox.hold("cancel", "hangs")
    ended, work = threading.Event(), FollowUps()
    forget = wake.subscribe(lambda tasks, over: work.woken.set())

    def loop() -> None:
        while not ended.is_set():
            work.turn()

    worker = in_thread(loop)
    try:
        stop(hanging.task_id, by=ann)
        sandbox.wait("cancel", "hangs")
        stop(other.task_id, by=ann)
        [effect] = sandbox.settled("is cancelled", seconds=HANG_GUARD / 2)
        assert effect["state"] == "cancelled"
    finally:
        sandbox.release("cancel", "hangs")
        ended.set()
        work.woken.set()
        worker.result(HANG_GUARD)
        forget()


def test_a_fault_of_the_database_ends_no_worker(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable() -> None:
        raise OperationalError("the server is restarting")

    work = FollowUps()
    work.woken.set()
    monkeypatch.setattr(reconcile, "next_due", unreachable)
    monkeypatch.setattr(work.woken, "wait", lambda pause: pause)
    with caplog.at_level(logging.ERROR):
        work.turn()
    assert "the follow-up work failed; trying again" in caplog.text
    monkeypatch.undo()
    assert reconcile.start() == []
