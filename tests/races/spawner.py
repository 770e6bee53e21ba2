"""A process of its own that spawns: python -m tests.races.spawner, told by JSON lines, telling by JSON lines.

{"token": of the root's run, "seed": number, "threads": how many, "way": of locking}   answers {"under_way": true} once
each thread has spawned, and {"spawned": number} when the root's end has refused each of them.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

FAMILIES_FIRST, PARENTS_ALONE, NO_LOCK = "families first", "parents alone", "no lock"
BEFORE = 1  # children that each thread has spawned before the stop
BURST = 2  # children that it spawns then without a pause
PACE = 0.5  # seconds at most between two later ones on SQLite, which is unfair to whoever waits, also to the stop


def locked_by(way: str) -> Callable[[Iterable[int]], dict[int, Any]]:
    """How tasks are locked: as the product does, or in a naive way."""
    from agentstop import database, family
    from agentstop.models import Task

    def naive(task_ids: Iterable[int]) -> dict[int, Any]:
        rows = Task.objects.filter(pk__in=sorted(set(task_ids)))
        return {task.pk: task for task in (database.locked(rows) if way == PARENTS_ALONE else rows)}

    return family.locked_tasks if way == FAMILIES_FIRST else naive


def tell(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Storm:
    """Threads that spawn below the root, and below whatever has been spawned, until the root refuses them."""

    def __init__(self, token: str, seed: int, threads: int, way: str) -> None:
        from django.db import Error

        from agentstop.exceptions import Stopped
        from agentstop.runs import Run

        self.root = Run.from_token(token)
        self.seed = seed
        self.threads = threads
        # In a naive way the constraints are the last line; the right one never comes as far.
        self.refusals = (Stopped,) if way == FAMILIES_FIRST else (Stopped, Error)
        self.runs = [self.root]
        self.lock = threading.Lock()
        self.ring = threading.Barrier(threads + 1, timeout=60)

    def blow(self) -> int:
        with ThreadPoolExecutor(self.threads) as pool:
            blowing = [pool.submit(self._spawn, number) for number in range(self.threads)]
            self.ring.wait()
            tell(under_way=True)
            return sum(one.result() for one in blowing)

    def _spawn(self, number: int) -> int:
        from django.db import connections

        rng = random.Random(1_000 * self.seed + number)  # noqa: S311  a seeded course of events
        spawned = 0
        try:
            while self._one(rng):
                spawned += 1
                if spawned == BEFORE:
                    self.ring.wait()
                if connections["default"].vendor == "sqlite" and spawned > BURST:
                    time.sleep(rng.uniform(0, PACE))
        except BaseException:
            self.ring.abort()
            raise
        finally:
            connections.close_all()
        return spawned

    def _one(self, rng: random.Random) -> bool:
        """False where nothing can be spawned below the root any more."""
        from agentstop.runs import begin

        with self.lock:
            below = self.root if rng.random() < 0.3 else rng.choice(self.runs[-30:])
        try:
            child = begin("child", serves=[below])
        except self.refusals:
            return self._goes_on()
        with self.lock:
            self.runs.append(child)
        return True

    def _goes_on(self) -> bool:
        from agentstop.exceptions import Stopped

        try:
            self.root.check()
        except Stopped:
            return False
        return True


def main() -> None:
    import django

    django.setup()
    from agentstop import family

    for line in sys.stdin:
        told = json.loads(line)
        if told["way"] != FAMILIES_FIRST:
            family.locked_tasks = locked_by(told["way"])  # type: ignore[assignment]
        tell(spawned=Storm(**told).blow())


if __name__ == "__main__":
    main()
