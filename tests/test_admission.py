"""The host's own sink: what it writes is committed while the run is live, or not at all (R25)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from agentstop import database, settle, storing
from agentstop.exceptions import Stale
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.words.sentences import ANSWERED_BEFORE
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import call_outcomes, of_key, task_of
from tests.races.scene import wait_for_the_lock
from tests.tools import Counting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


@pytest.fixture
def run() -> Run:
    return begin("a task")


@pytest.fixture
def operation(run: Run) -> int:
    """It has succeeded, and its result was given to nobody yet: a look-up has found it."""
    with run.dispatch("write", connector="tools", key="k") as op:
        op.accepted("r")
    settle.record(op.id, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now(), ref="r")])
    return op.id


def test_what_a_live_run_writes_is_committed_with_its_call(run: Run, operation: int) -> None:
    for name in ("one", "two"):
        with run.admitting(operation):
            Group.objects.create(name=name)
    assert Group.objects.count() == 2
    assert call_outcomes(operation) == [(run.number, "accepted")]


@pytest.mark.parametrize("how", ["stop", "begin", "finish"])
def test_a_run_that_is_over_writes_nothing(run: Run, operation: int, how: str) -> None:
    ends: dict[str, Callable[[], object]] = {
        "stop": lambda: stop(run.task_id),
        "begin": lambda: begin(run.task_id),
        "finish": run.finish,
    }
    ends[how]()
    with pytest.raises(Stale, match="the receipt is kept"), run.admitting(operation):
        raise AssertionError("the body was entered")
    assert of_key(run.task_id, "k").operation.state == "succeeded"
    assert call_outcomes(operation) == []


def test_a_stop_does_not_wait_for_a_slow_body_whose_writes_are_then_undone(
    run: Run, operation: int, in_thread: InThread
) -> None:
    if connection.vendor == "sqlite":
        return  # whoever writes has the whole file: there the stop waits, and what was begun before it is admitted
    with pytest.raises(Stale), run.admitting(operation):
        Group.objects.create(name="late")
        assert in_thread(stop, run.task_id).result(HANG_GUARD).stopped
    assert not Group.objects.exists()
    assert call_outcomes(operation) == []
    seen = of_key(run.task_id, "k")
    assert seen.label is Label.COMPLETED_BEFORE and ANSWERED_BEFORE in seen.reading.evidence


def test_a_body_that_fails_writes_nothing(run: Run, operation: int) -> None:
    with pytest.raises(ZeroDivisionError), run.admitting(operation):
        Group.objects.create(name="half")
        raise ZeroDivisionError
    assert not Group.objects.exists()
    assert call_outcomes(operation) == []


def test_it_can_be_awaited(run: Run, operation: int, in_thread: InThread) -> None:
    async def admit() -> Any:
        return await run.aadmit(operation, lambda: Group.objects.create(name="async").name)

    assert in_thread(lambda: asyncio.run(admit())).result(HANG_GUARD) == "async"
    stop(run.task_id)

    async def too_late() -> None:
        with pytest.raises(Stale):
            await admit()

    in_thread(lambda: asyncio.run(too_late())).result(HANG_GUARD)
    assert Group.objects.count() == 1


def test_a_stop_waits_for_an_admission_that_is_being_committed(
    run: Run, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8, the other order: who has the lock first is first, and the label says that it was answered before."""
    inside, go_on, store = threading.Event(), threading.Event(), storing.store

    def held(**what: Any) -> None:
        inside.set()
        assert go_on.wait(HANG_GUARD)
        store(**what)

    monkeypatch.setattr(storing, "store", held)
    caller = in_thread(run.call, "write", {}, connector="tools", key="k", send=Counting("done"))
    assert inside.wait(HANG_GUARD)
    pressed = in_thread(stop, run.task_id)
    wait_for_the_lock()
    assert not pressed.done()
    go_on.set()
    assert pressed.result(HANG_GUARD).stopped
    assert caller.result(HANG_GUARD).accepted
    assert run.context() == ["done"]
    seen = of_key(run.task_id, "k")
    assert seen.label is Label.COMPLETED_BEFORE and ANSWERED_BEFORE in seen.reading.evidence
    assert task_of(run).state == "stopped"
