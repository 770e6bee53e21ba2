"""That the bench of jobs measures all that it names; what it finds depends on the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.test_http import told
from tests.redis_server import redis_program

pytest.importorskip("django_tasks_db")

CELERY = ["Celery job, to its result", "gated Celery job", "@tool, in no queue"]
DJANGO = ["job of Django's tasks, to its end", "gated job of Django's tasks", "@tool, in no queue"]
OF_CELERY = pytest.mark.skipif(redis_program() is None, reason="There is no redis-server here.")


@pytest.mark.parametrize(
    ("queue", "subjects"),
    [pytest.param("celery", CELERY, marks=OF_CELERY), ("django", DJANGO)],
    ids=["celery", "django"],
)
def test_a_gated_job_is_measured_beside_the_queue_alone(tmp_path: Path, queue: str, subjects: list[str]) -> None:
    url = f"sqlite:///{tmp_path}/measured.sqlite3"
    found = json.loads(told(f"bench.queues.{queue}", "1", "3", "30", DATABASE_URL=url).splitlines()[-1])
    assert [each["name"] for each in found["figures"]] == subjects
    assert [len(each["rounds"][0]) for each in found["figures"]] == [3] * 3
