"""The rounds of Django's tasks on one database, in a process of its own, with the backend's worker; prints JSON.

DATABASE_URL=… python -m bench.queues.django ROUNDS CALLS SECONDS
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from bench.gate.figures import Part
from bench.http.rounds import Subjects
from bench.queues.measured import part, set_up


def main(rounds: int, calls: int, seconds: float) -> Part:
    set_up()
    return part("Django's tasks", _subjects, rounds, calls, seconds)


def _subjects(run: Any) -> Subjects:
    from bench.gate.ours import fresh_key
    from bench.queues import django_jobs

    gated = django_jobs.gated.using(run=run)

    def to_its_end(task: Any) -> None:
        task.enqueue(fresh_key())
        django_jobs.worker().run()

    return [
        ("job of Django's tasks, to its end", lambda: to_its_end(django_jobs.alone)),
        ("gated job of Django's tasks", lambda: to_its_end(gated)),
    ]


if __name__ == "__main__":
    print(json.dumps(asdict(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
