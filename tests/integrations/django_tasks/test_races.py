"""Both sides of the race, where the sender is a job of `django.tasks` on its worker. R1, R7, R12, R15, R17.

The rows, and what is asked of each, are those of `races/test_both_sides.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentstop.testing.sandbox.client import SandboxClient
from tests.integrations.django_tasks.conftest import HELD, WorkerProcess
from tests.races.conftest import Play
from tests.races.scene import Row
from tests.races.test_both_sides import each_point
from tests.races.test_both_sides import test_a_stop_after_the_point_was_passed as stop_after
from tests.races.test_both_sides import test_a_stop_before_the_point_is_passed as stop_before

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]


@pytest.fixture
def sender(process: WorkerProcess, sandbox: SandboxClient) -> Iterator[WorkerProcess]:
    process.configure(sandbox.address, DEADLINE=HELD)
    yield process
    sandbox.reset()
    process.rest()


@each_point
def test_a_stop_before_the_point_is_passed_by_a_job_of_django(row: Row, sender: WorkerProcess, play: Play) -> None:
    stop_before(row, sender, play)


@each_point
def test_a_stop_after_the_point_was_passed_by_a_job_of_django(row: Row, sender: WorkerProcess, play: Play) -> None:
    stop_after(row, sender, play)
