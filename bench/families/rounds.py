"""One database's rounds, in a process of its own; prints its figures as JSON.

DATABASE_URL=… python -m bench.families.rounds DESCENDANTS ROUNDS SECONDS
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict

from bench.gate.figures import Figures, Part


def main(descendants: int, rounds: int, seconds: float) -> Part:
    """In each round a family is made, which is not counted, all its rows are updated, and it is stopped."""
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"
    django.setup()
    from django.core.management import call_command

    from agentstop import wake
    from bench.gate.rounds import version

    call_command("migrate", verbosity=0)
    bare = Figures(f"UPDATE of {descendants:,} rows by Django", 1)
    stopping = Figures(f"stop of {descendants:,} descendants", 1)
    part = Part(f"{version()}, families", [bare, stopping])
    until = time.monotonic() + seconds
    for number in range(rounds):
        if number and time.monotonic() > until:
            part.missing.append(f"Only {number} of {rounds} rounds: there was no time for more.")
            break
        for figures, took in zip(part.figures, measured(descendants), strict=True):
            figures.rounds.append([took])
    wake.close()
    return part


def measured(descendants: int) -> tuple[float, float]:
    """Seconds of a bare UPDATE of one column of as many rows, and of the stop; both until they are committed."""
    from agentstop.models import Task
    from agentstop.stop import stop
    from tests.trees import tree

    root, first = tree("binary", descendants)
    rows = Task.objects.filter(pk__range=(first, first + descendants - 1))
    begun = time.perf_counter()
    updated = rows.update(stop_reason="none yet")
    between = time.perf_counter()
    stopped = stop(root.task_id).descendants
    ended = time.perf_counter()
    assert updated == stopped == descendants
    return between - begun, ended - between


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(found)))
