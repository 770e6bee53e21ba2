"""Celery's rounds on one database, in a process of its own with a worker of one thread; prints its figures as JSON.

DATABASE_URL=… python -m bench.queues.celery ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from bench.gate.figures import Part
from bench.http.rounds import Subjects
from bench.queues.measured import part, set_up, work
from tests.redis_server import redis_program, running_redis

PATIENCE = 60.0  # seconds for a job


def main(rounds: int, calls: int, seconds: float) -> Part:
    if redis_program() is None:
        return Part("Celery", missing=["Not measured: there is no redis-server here."])
    set_up()
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    with running_redis() as path:
        app = Celery("bench", broker=f"redis+socket://{path}", backend=f"redis+socket://{path}")
        found = _tasks(app)
        with start_worker(app, pool="threads", concurrency=1, perform_ping_check=False, loglevel="ERROR"):
            return part("Celery on a Redis", lambda run: _subjects(found, run), rounds, calls, seconds)


def _tasks(app: Any) -> tuple[Any, Any]:
    from agentstop.integrations.celery import GatedTask

    alone = app.task(name="alone")(work)
    return alone, app.task(name="gated", base=GatedTask, connector="tools", key="job:{number}")(work)


def _subjects(tasks: tuple[Any, Any], run: Any) -> Subjects:
    from bench.gate.ours import fresh_key

    alone, gated = tasks
    return [
        ("Celery job, to its result", lambda: alone.delay(fresh_key()).get(timeout=PATIENCE)),
        ("gated Celery job", lambda: gated.apply_async((fresh_key(),), run=run).get(timeout=PATIENCE)),
    ]


if __name__ == "__main__":
    print(json.dumps(asdict(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
