"""Both sides of the race, where the sender is a job on a real worker. R1, R7, R12, R15, R17.

The rows, and what is asked of each, are those of `races/test_both_sides.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import redis

from agentstop.runs import Run
from tests.conftest import HANG_GUARD
from tests.integrations.celery import app as jobs
from tests.integrations.celery.conftest import StartWorker, told, until
from tests.races.conftest import Play
from tests.races.scene import Row
from tests.races.senders import Got, Sender
from tests.races.test_both_sides import each_point, every_row
from tests.races.test_both_sides import test_a_stop_after_the_point_was_passed as stop_after
from tests.races.test_both_sides import test_a_stop_before_the_point_is_passed as stop_before

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race, pytest.mark.usefixtures("process")]


class Worker(Sender):
    """Sends by jobs; held at a point of our own side by what the test has written to Redis."""

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


@pytest.fixture(scope="module")
def process(start_worker: StartWorker) -> None:
    start_worker(at_once=8, settling=30.0)


@every_row
def test_a_stop_before_the_point_is_passed_by_a_job(row: Row, store: redis.Redis, play: Play) -> None:
    stop_before(row, Worker(store), play)


@each_point
def test_a_stop_after_the_point_was_passed_by_a_job(row: Row, store: redis.Redis, play: Play) -> None:
    stop_after(row, Worker(store), play)
