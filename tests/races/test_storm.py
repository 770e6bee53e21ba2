"""R31: eight threads in two processes spawn while the family is stopped, and none of their children is left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from agentstop import family
from agentstop.models import Run as RunRow
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.races.spawner import BEFORE, FAMILIES_FIRST, NO_LOCK, PARENTS_ALONE, locked_by

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSES, THREADS, TRIALS = 2, 4, 20


class Spawner:
    """One of the two processes."""

    def __init__(self, database_url: str) -> None:
        command = [sys.executable, "-m", "tests.races.spawner"]
        environment = {**os.environ, "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)

    def start(self, **told: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def hear(self, name: str) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "a process that spawns has ended; its last lines are above"
        return json.loads(line)[name]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=HANG_GUARD)


@pytest.fixture
def spawners(database_url: str) -> Iterator[list[Spawner]]:
    started = [Spawner(database_url) for _ in range(PROCESSES)]
    yield started
    for one in started:
        one.end()


def storm(spawners: list[Spawner], in_thread: InThread, trial: int, way: str) -> int:
    """Stop the family amid the spawning, which ends by its refusals alone; how many tasks and runs are left running."""
    root = begin("root")
    for number, one in enumerate(spawners):
        one.start(token=root.token, seed=PROCESSES * trial + number, threads=THREADS, way=way)
    for one in spawners:
        assert in_thread(one.hear, "under_way").result(HANG_GUARD)
    stop(root.task_id)
    spawned = sum(in_thread(one.hear, "spawned").result(HANG_GUARD) for one in spawners)
    assert spawned >= PROCESSES * THREADS * BEFORE
    return Task.objects.filter(state="active").count() + RunRow.objects.filter(state="live").count()


def test_none_is_left_running_after_twenty_storms(spawners: list[Spawner], in_thread: InThread) -> None:
    assert [storm(spawners, in_thread, trial, FAMILIES_FIRST) for trial in range(TRIALS)] == [0] * TRIALS
    assert list(differences()) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets one writer at a time")
@pytest.mark.parametrize("way", [PARENTS_ALONE, NO_LOCK])
def test_in_the_naive_ways_children_escape(
    way: str, spawners: list[Spawner], in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail: locks of the parents alone, or one recursive statement and no lock at all."""
    monkeypatch.setattr(family, "locked_tasks", locked_by(way))
    assert any(storm(spawners, in_thread, trial, way) for trial in range(TRIALS))
