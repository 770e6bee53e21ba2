"""The race runner: an agent of the reader's own, stopped at each point of its operations' way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from agentstop import connectors, database, reconcile
from agentstop.exceptions import AgentStopError
from agentstop.models import Call, Operation, Task
from agentstop.models.facts import CallOutcome
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from agentstop.stop_signal import watch
from agentstop.testing.barriers import ANY, Barrier, held_at
from agentstop.testing.races.around import Around
from agentstop.testing.races.result import IT_WAS_DONE, NOTHING_WAS_DONE, Played, Result
from agentstop.testing.races.rows import ROWS, Row
from agentstop.testing.races.stage import LedgerStage, Stage
from agentstop.testing.races.threads import called, own
from agentstop.words.sentences import NAMES, Label

GUARD = 60.0  # seconds after which an agent has hung
TURNS = 40  # of the worker, until everything is settled
IN_VAIN = 10  # of them that leave what is unknown as it is
AT_ONCE, FOR_GOOD = "it is answered only when it is done", "it cannot be cancelled"
OPEN = frozenset({OperationState.SENDING, OperationState.ACCEPTED, OperationState.UNKNOWN})

Agent = Callable[[Run], Any]
Beside = Callable[[Run], Any]


class Races:
    """Plays the races with `agent(run)`, a function or coroutine function that makes its calls through the run.

    `stage` is the provider that it sends to; `beside(run)` is an independent task's work at the same connector, which
    has to finish whatever happens. An agent must be one that can be asked again: its calls name their effects by keys.
    """

    def __init__(
        self, agent: Agent, *, owner: Any, stage: Stage, beside: Beside | None = None, patience: float = 5.0
    ) -> None:
        self.agent, self.owner, self.stage, self.beside = agent, owner, stage, beside
        self._unfit = ""
        self.patience = patience  # seconds within which the agent comes to a point, or never

    def play(self, rows: Sequence[Row] = ROWS) -> Result:
        """All rows, each with the stop before its point is passed and, where it can be, after."""
        played: list[Played] = []
        for row in rows:
            played.append(self._play(row, "before"))
            if row.finishes and not played[-1].skipped:
                played.append(self._play(row, "after"))
        return Result(played)

    def _play(self, row: Row, when: str) -> Played:
        found = Played(row.name, when)
        if not row.ours and row.at and not self.stage.can_hold:
            found.skipped = "this provider cannot be held"
        elif row.accepted or row.cancels:
            found.skipped = self._unfit
        if found.skipped:
            return found
        self.stage.reset(row.misbehave)
        with ThreadPoolExecutor(4) as pool:
            _Race(self, row, found, pool).run()
        self.stage.reset({})
        if found.skipped in (AT_ONCE, FOR_GOOD):
            self._unfit = found.skipped  # so are the other rows of its kind: none waits for that again
        return found


class _Race:
    """One row under way."""

    def __init__(self, races: Races, row: Row, found: Played, pool: ThreadPoolExecutor) -> None:
        self.races, self.stage, self.row, self.found, self.pool = races, races.stage, row, found, pool
        self.task_run = begin(f"race: {row.name}", owner=races.owner)
        self.beside_run = begin("beside a race", owner=races.owner)
        self.around = Around(self.task_run, self.beside_run)
        self.arrived = threading.Event()

    def run(self) -> None:
        with self._held() as release:
            working = self._start(self.races.agent, self.task_run) if self.row.at else None
            why = self._not_there(working)
            if why:
                self.found.skipped = why
                release()
                self._finish(working)
                return
            self.stage.behave()
            beside = self._start(self.races.beside, self.beside_run) if self._may_run_beside else None
            if self.found.when == "after":
                release()
                self._finish(working)
            self._press(release)
            self._cancel()
            release()
            self._finish(working)
        self._ask_again()
        self._settle()
        self._judge()
        self._look_beside(beside)

    @property
    def _may_run_beside(self) -> bool:
        return self.races.beside is not None and not self.row.ours

    @contextmanager
    def _held(self) -> Iterator[Callable[[], None]]:
        """Hold at the row's point; the block is given what lets everyone go, once."""
        once = threading.Lock()
        with ExitStack() as stack:
            barrier = Barrier(ANY, self.arrived.set)
            if self.row.ours:
                stack.enter_context(held_at(self.row.at, barrier))
            elif self.row.at:
                self.stage.hold(self.row.at)

            def release() -> None:
                if once.acquire(blocking=False):
                    barrier.open()
                    if self.row.at and not self.row.ours:
                        self.stage.release(self.row.at)

            try:
                yield release
            finally:
                release()

    def _not_there(self, working: Future[Any] | None) -> str:
        """Why the row does not apply; empty where the agent is held at its point."""
        if working is None:
            return ""
        there = (
            self.arrived.wait(self.races.patience)
            if self.row.ours
            else self.stage.reached(self.row.at, self.races.patience)
        )
        if not there:
            return "the agent does not come there"
        if (self.row.accepted or self.row.cancels) and not self._accepted():
            return AT_ONCE
        if self.row.cancels and not self._cancellable():
            return FOR_GOOD
        return ""

    def _accepted(self) -> bool:
        pause = threading.Event()
        for _ in range(int(self.races.patience / 0.05)):
            if any(each.state == OperationState.ACCEPTED for each in self._operations()):
                return True
            pause.wait(0.05)
        return False

    def _cancellable(self) -> bool:
        return any(connectors.capability(each.connector, each.action).cancellable for each in self._operations())

    def _press(self, release: Callable[[], None]) -> None:
        """Press Stop. Where the gate holds the task's lock the press has to wait for it."""
        if self.row.late_cancel:
            self.stage.hold("cancel")  # a process that alone reaches the provider asks as soon as it hears of the stop
        if isinstance(self.stage, LedgerStage):
            for each in self._operations():
                self.stage.remember(str(each.idempotency_key))
        if self.row.at == "P1" and self.found.when == "before":
            pressing = self.pool.submit(own, stop, self.task_run.task_id)
            release()
            pressing.result(GUARD)
        else:
            stop(self.task_run.task_id)
        self.pressed_at = database.now()
        self.found.shown = [NAMES[label] for label in self._labels()]
        self.found.faults.extend(self.around.faults())
        if self.row.at == "P2 sent by anyone" and self.found.when == "before":
            signal = watch().hold(self.task_run.task_id, self.task_run.number)  # until then its pass is good
            signal.wait(GUARD)
            watch().release(signal)

    def _cancel(self) -> None:
        """The worker's turn, while what can be cancelled is still held."""
        if self.found.when == "after" or not (self.row.cancels or self.row.accepted):
            return
        if not self.row.late_cancel:
            reconcile.work(among=self._ids())
            return
        asking = self.pool.submit(own, reconcile.work, among=self._ids())
        if not self.stage.reached("cancel", self.races.patience):
            self.found.faults.append("no request to cancel came to the provider")
        self.stage.release("cancel")
        asking.result(GUARD)

    def _ask_again(self) -> None:
        """A retry whose time has come after the stop."""
        before = self._submits()
        self._finish(self._start(self.races.agent, self.task_run))
        after = self._submits()
        if after > max(before, 0):
            self.found.faults.append(f"asked again after the stop, it was sent again ({before} -> {after})")

    def _settle(self) -> None:
        pause, unknown = threading.Event(), 0
        for _ in range(TURNS):
            for each in self._operations():
                self.stage.settled(str(each.idempotency_key))
            waiting = [each for each in self._operations() if each.state in OPEN and each.follow_up_at is not None]
            unknown = unknown + 1 if all(each.state == OperationState.UNKNOWN for each in waiting) else 0
            if not waiting or unknown > IN_VAIN:
                break
            now = database.now()
            Operation.objects.using(database.alias()).filter(pk__in=self._ids(), follow_up_at__gt=now).update(
                follow_up_at=now
            )
            reconcile.work(among=self._ids())
            pause.wait(0.05)
        if self.row.asked_at_the_end:
            for pk in self._ids():
                reconcile.look_up_now(pk, by=self.races.owner)

    def _judge(self) -> None:
        """Compare what is said with what the ledger has."""
        task = Task.objects.using(database.alias()).get(pk=self.task_run.task_id)
        stopped_at = task.stopped_at or self.pressed_at  # a task that had finished is not stopped by a press
        labels = list(self._labels())
        self.found.ends = [NAMES[label] for label in labels]
        for label, each in zip(labels, self._operations(), strict=True):
            key = str(each.idempotency_key) if each.idempotency_key else ""
            writes = self.stage.writes(key) if each.attempts else 0
            self.found.writes += writes
            if each.attempts:
                self.found.writes_after += self.stage.writes_since(key, stopped_at)
            self._compare(label, writes, each)
        admitted = Call.objects.using(database.alias()).filter(
            operation__task=self.task_run.task_id, outcome=CallOutcome.ACCEPTED, admitted_at__gt=stopped_at
        )
        self.found.stale = admitted.count()
        if self.found.stale:
            self.found.faults.append(f"{self.found.stale} results were admitted after the stop")

    def _compare(self, label: Label, writes: int, operation: Operation) -> None:
        name = f"{operation.action} ({operation.key})"
        if label in NOTHING_WAS_DONE and writes:
            self.found.faults.append(f"{name} is said to be {NAMES[label]}, and the ledger has {writes} writes")
        if label in IT_WAS_DONE and not writes:
            self.found.faults.append(f"{name} is said to be {NAMES[label]}, and the ledger has none")
        if writes > 1:
            self.found.faults.append(f"{name} was done {writes} times")

    def _look_beside(self, beside: Future[Any] | None) -> None:
        if beside is None:
            return
        try:
            beside.result(GUARD)
        except Exception as error:
            self.found.faults.append(f"the independent task was disturbed: {error!r}")
            return
        task = Task.objects.using(database.alias()).get(pk=self.beside_run.task_id)
        good = all(each.state == OperationState.SUCCEEDED for each in task.operations.all())
        if task.state != "active" or not good:
            self.found.faults.append(f"the independent task did not finish ({task.state})")

    def _start(self, agent: Agent | None, run: Run) -> Future[Any]:
        if agent is None:
            raise AssertionError("started without an agent")
        return self.pool.submit(own, called, agent, run)

    def _finish(self, working: Future[Any] | None) -> None:
        """Wait for the agent. That it is refused or freed is what a stop does; any other error is its own."""
        if working is None:
            return
        try:
            working.result(GUARD)
        except AgentStopError:
            pass
        except TimeoutError:
            self.found.faults.append("the agent did not end after the stop")

    def _operations(self) -> list[Operation]:
        return list(Operation.objects.using(database.alias()).filter(task=self.task_run.task_id).order_by("pk"))

    def _ids(self) -> list[int]:
        return [each.pk for each in self._operations()]

    def _submits(self) -> int:
        return sum(self.stage.submits(str(each.idempotency_key)) for each in self._operations() if each.attempts)

    def _labels(self) -> Iterator[Label]:
        told, _ = report.load(self.task_run.task_id, self.races.owner)
        by_id = {each.id: each.reading.label for each in told.operations}
        yield from (by_id[each.pk] for each in self._operations() if each.pk in by_id)  # one may be listed meanwhile
