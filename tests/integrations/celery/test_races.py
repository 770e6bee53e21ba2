"""Both sides of the race, where the sender is a job on a real worker. R1, R7, R12, R15, R17.

The rows, and what is asked of each, are those of `races/test_both_sides.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import redis

from agentstop.integrations.celery import REFUSED
from agentstop.runs import Run
from tests.conftest import HANG_GUARD
from tests.integrations.celery import app as jobs
from tests.integrations.celery.conftest import StartWorker, state_of, told, until
from tests.races.conftest import Play
from tests.races.scene import Row
from tests.races.senders import Got, Sender
from tests.races.test_both_sides import EACH, each_point, every_row
from tests.races.test_both_sides import test_a_stop_after_the_point_was_passed as stop_after
from tests.races.test_both_sides import test_a_stop_before_the_point_is_passed as stop_before

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race, pytest.mark.usefixtures("process")]


class Worker(Sender):
    """Sends by jobs whose own call is the gate; held at a point of our own by what the test has written to Redis."""

    def __init__(self, store: redis.Redis) -> None:
        self._store = store
        self._points: list[str] = []

    def hold(self, point: str) -> None:
        self._points.append(point)
        self._store.set(f"hold:{point}", "main")

    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        jobs.ask.apply_async((name, action, dict(args), name), run=run)

    def wait_at(self, point: str) -> None:
        until(f"at:{point}")

    def hear(self, run: Run) -> None:
        assert jobs.heard.apply_async(run=run).get(timeout=HANG_GUARD) is True

    def go(self) -> None:
        for point in self._points:
            self._store.delete(f"hold:{point}")
            self._store.rpush(f"go:{point}", "go")

    def got(self, name: str) -> Got:
        said = told(name)
        return Got(said["outcome"], said["refusal"])

    def client(self) -> int:
        number: int = jobs.client.apply_async().get(timeout=HANG_GUARD)
        return number

    def rest(self) -> None:
        jobs.rest.apply_async().get(timeout=HANG_GUARD)


class AsOne(Worker):
    """Sends by jobs each of which is one operation: whoever waits for it hears no sooner than the job ends."""

    def __init__(self, store: redis.Redis) -> None:
        super().__init__(store)
        self._ids: dict[str, str] = {}

    def start(self, name: str, run: Run, action: str, args: Mapping[str, Any]) -> None:
        self._ids[name] = jobs.whole.apply_async(kwargs=dict(args), run=run).id

    def got(self, name: str) -> Got:
        state, _ = state_of(jobs.app.AsyncResult(self._ids[name]))
        return Got({"SUCCESS": "accepted", "FAILURE": "failed", REFUSED: "ignored"}[state])


@pytest.fixture(scope="module")
def process(start_worker: StartWorker) -> None:
    start_worker(at_once=8, settling=30.0)


@every_row
def test_a_stop_before_the_point_is_passed_by_a_job(row: Row, store: redis.Redis, play: Play) -> None:
    stop_before(row, Worker(store), play)


@each_point
def test_a_stop_after_the_point_was_passed_by_a_job(row: Row, store: redis.Redis, play: Play) -> None:
    stop_after(row, Worker(store), play)


OWN = [row for row in EACH if row.at in ("", "P1", "received", "accepted", "effect", "P8")]  # held where a job comes by
LOST = [row for row in OWN if not row.completes]  # ends by an error of its own, which is a failure of the job


@pytest.mark.parametrize("row", [row for row in OWN if row.completes], ids=lambda row: row.point)
def test_a_stop_before_the_point_is_passed_by_a_job_that_is_one_operation(
    row: Row, store: redis.Redis, play: Play
) -> None:
    stop_before(row, AsOne(store), lambda row, sender: play(row, sender, beside=Worker(store)))


@pytest.mark.parametrize("row", LOST, ids=lambda row: row.point)
def test_a_stop_after_the_response_to_a_job_that_is_one_operation_was_lost(
    row: Row, store: redis.Redis, play: Play
) -> None:
    stop_after(row, AsOne(store), lambda row, sender: play(row, sender, beside=Worker(store)))
