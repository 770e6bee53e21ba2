"""Thirty-two callers against one task: nothing passes or is admitted after a commit, and without the lock it would.

R1, R7, R25.

The referee is the database's clock: who holds the lock reads it after the lock, so what one transaction wrote before
another carries an earlier time.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count

from agentstop import gate, request, settle, storing
from agentstop.exceptions import InFlight, Stopped, Superseded
from agentstop.models import Attempt, ContextEntry, Operation
from agentstop.runs import Run, begin
from agentstop.settle import Admission, Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools"), pytest.mark.race]

CALLERS = 32
TRIALS_WITHOUT_LOCK = 50  # at the most: the first violation ends it

needs_row_locks = pytest.mark.skipif(
    "connection.vendor != 'postgresql'", reason="SQLite has no row lock that could be left out"
)


class Trial(ABC):
    """One task, hammered by all callers while `end` is called once."""

    def __init__(self) -> None:
        self.run = begin("hammered")
        self.done = threading.Semaphore(0)
        self.ended_at = float("inf")
        self.begun_after = 0

    @abstractmethod
    def work(self, caller: int) -> None:
        """What a caller does until it is told that the run is over."""

    @abstractmethod
    def end(self) -> None:
        """What ends the run; returns after its commit."""

    @abstractmethod
    def violations(self) -> int:
        """How much of the ended run was let through after that."""

    def end_amid_the_work(self) -> None:
        for _ in range(random.randint(1, CALLERS // 4)):  # noqa: S311  when to end it, not a secret
            assert self.done.acquire(timeout=HANG_GUARD)
        self.end()
        self.ended_at = time.perf_counter()


class GateAgainstStop(Trial):
    """All callers ask the gate, for keys of their own and for keys that they share."""

    def work(self, caller: int) -> None:
        for turn in itertools.count():
            began = time.perf_counter()
            try:
                gate.open_gate(wish(self.run, f"shared {turn}" if turn % 8 == 7 else f"{caller}, {turn}"))
            except InFlight:
                continue
            except (Stopped, Superseded):
                return
            self.begun_after += began > self.ended_at
            self.done.release()

    def end(self) -> None:
        stop(self.run.task_id)

    def violations(self) -> int:
        tries = Attempt.objects.filter(operation__task=self.run.task_id, run=self.run.number)
        doubled = tries.values("operation").annotate(n=Count("pk")).filter(n__gt=1).count()
        return tries.filter(passed_at__gte=self.over_at()).count() + self.begun_after + doubled

    def over_at(self) -> Any:
        return task_of(self.run).stopped_at


class GateAgainstBegin(GateAgainstStop):
    """The same against a new run, which supersedes theirs."""

    def end(self) -> None:
        begin(task_of(self.run))

    def over_at(self) -> Any:
        return task_of(self.run).runs.get(number=self.run.number + 1).began_at


class AdmissionAgainstStop(Trial):
    """Operations that have all left are answered while the task is stopped; each answer wants to be admitted."""

    ANSWERS = 3  # of each caller

    def __init__(self) -> None:
        super().__init__()
        passes = [gate.try_gate(wish(self.run, f"k{n}")) for n in range(self.ANSWERS * CALLERS)]
        self.passes = [passed for passed in passes if passed is not None]

    def work(self, caller: int) -> None:
        for passed in self.passes[caller::CALLERS]:
            began = time.perf_counter()
            answer = Heard(Claim.SUCCEEDED, Source.PROVIDER, passed.passed_at, passed.attempt_id)
            settled = settle.record(passed.operation, [answer], admission=Admission(self.run.number))
            self.begun_after += settled.outcome == "accepted" and began > self.ended_at
            self.done.release()

    def end(self) -> None:
        stop(self.run.task_id)

    def violations(self) -> int:
        lost = Operation.objects.filter(task=self.run.task_id).exclude(state="succeeded").count()
        admitted = ContextEntry.objects.filter(task=self.run.task_id)
        return admitted.filter(at__gte=task_of(self.run).stopped_at).count() + self.begun_after + lost


class AdmissionAgainstBegin(AdmissionAgainstStop):
    """The same against a new run."""

    def end(self) -> None:
        begin(task_of(self.run))

    def violations(self) -> int:
        began = task_of(self.run).runs.get(number=self.run.number + 1).began_at
        admitted = ContextEntry.objects.filter(task=self.run.task_id)
        return admitted.filter(at__gte=began).count() + self.begun_after


# How many trials on PostgreSQL and on SQLite, whose one writer at a time leaves little to find and is slow to wait for.
TRIALS: dict[type[Trial], tuple[int, int]] = {
    GateAgainstStop: (50, 2),
    GateAgainstBegin: (10, 1),
    AdmissionAgainstStop: (5, 1),
    AdmissionAgainstBegin: (5, 1),
}


def wish(run: Run, key: str) -> request.Request:
    return request.make(run.task_id, run.number, "write", {}, {"connector": "tools", "key": key})


def hammer(
    kind: Callable[[], Trial], in_thread: InThread, *, trials: int, enough: Callable[[int], bool] = lambda _: False
) -> int:
    """The violations of so many trials, by the same callers; fewer trials once there are enough of them."""
    ring = threading.Barrier(CALLERS + 1, timeout=HANG_GUARD)
    current: list[Trial | None] = [None]

    def caller(number: int) -> None:
        try:
            while True:
                ring.wait()
                trial = current[0]
                if trial is None:
                    return
                trial.work(number)
                ring.wait()
        except BaseException:
            ring.abort()  # nobody waits for one who has failed
            raise

    callers = [in_thread(caller, number) for number in range(CALLERS)]
    seen = 0
    try:
        for _ in range(trials):
            trial = current[0] = kind()
            ring.wait()
            trial.end_amid_the_work()
            ring.wait()
            seen += trial.violations()
            if enough(seen):
                break
        current[0] = None
        ring.wait()
    except BaseException:
        ring.abort()
        raise
    for each in callers:
        each.result(HANG_GUARD)
    return seen


@pytest.mark.parametrize("kind", TRIALS)
def test_nothing_of_an_ended_run_gets_through(kind: type[Trial], in_thread: InThread) -> None:
    """R1, R7, R25, R27."""
    trials = TRIALS[kind][connection.vendor == "sqlite"]
    assert hammer(kind, in_thread, trials=trials) == 0


@needs_row_locks
@pytest.mark.parametrize("kind", TRIALS)
def test_without_the_lock_something_gets_through(
    kind: type[Trial], in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test above can fail."""
    unlocked = gate.POSTGRESQL.replace("FOR NO KEY UPDATE", "")
    assert unlocked != gate.POSTGRESQL
    monkeypatch.setattr(gate, "POSTGRESQL", unlocked)
    monkeypatch.setattr(storing, "LOCK", storing.LOCK.replace("{lock_task}", ""))
    assert hammer(kind, in_thread, trials=TRIALS_WITHOUT_LOCK, enough=bool) > 0
