"""What the promises are shown with: the running system, its people, the provider's ledger, the stored facts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

from agentstop import export
from agentstop.models import Task
from agentstop.runs import Run
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.sentences import Label
from website.demo.models import Job
from website.demo.notes_log import NotesLog
from website.demo.promises.panel import Broken, Seen, TooSlow
from website.demo.promises.signs import ACTIVE, NAMES
from website.demo.promises.visitor import PATIENCE, Visitor
from website.demo.promises.watching import Watching
from website.demo.steps import Kind, label
from website.demo.system import System


class Stage:
    """One for a check."""

    def __init__(self, system: System, open_things: ExitStack) -> None:
        self.system = system
        self.sandbox = open_things.enter_context(SandboxClient(system.sandbox))
        self.notes = NotesLog(system.folder)
        self._open = open_things
        self.ann, self.ben, self.olga = (self.visitor(name) for name in ("ann", "ben", "olga"))

    def visitor(self, name: str) -> Visitor:
        """A new browser session of this person."""
        visitor = Visitor(self.system.address, name, self.system.people[name])
        self._open.callback(visitor.close)
        return visitor

    @contextmanager
    def held(self, point: str, topic: str) -> Iterator[None]:
        """Hold the report (or what has this text) at the provider until the block is left or `release` was called."""
        self.sandbox.hold(point, topic)
        try:
            yield
        finally:
            self.release(point, topic)

    def release(self, point: str, topic: str) -> None:
        try:
            self.sandbox.release(point, topic)
        except AssertionError as problem:
            if "nothing holds" not in str(problem):
                raise

    @contextmanager
    def started(self, topic: str, *, point: str = "", by: Visitor | None = None, **wishes: Any) -> Iterator[Watching]:
        """A task on its page; with a point, its report is held there when the block begins."""
        visitor = by or self.ann
        holding = self.held(point, topic) if point else nullcontext()
        with holding, Watching(visitor, visitor.start(topic, **wishes)) as page:
            if point:
                self.sandbox.wait(point, topic, seconds=PATIENCE)
            yield page

    @contextmanager
    def noted(self, topic: str, *, held: str) -> Iterator[Watching]:
        """A note's task on its page; what is held, as in `note:topic`, is held at the MCP server."""
        self.notes.hold(held)
        try:
            with Watching(self.ann, self.ann.start(topic, kind=Kind.NOTE.value)) as page:
                yield page
        finally:
            self.notes.release(held)

    def noted_by_then(self, task: int, what: str) -> None:
        """Until the MCP server has written this down for the task."""
        wait_for(f"{what}, for task {task}", lambda: any(each.what == what for each in self.notes.of(label(task))))

    def effects(self, task: int) -> list[dict[str, Any]]:
        """What the provider's ledger has of a task."""
        return list(self.sandbox.ledger(task=label(task))["effects"])

    def writes(self, task: int, *, after: datetime | None = None) -> int:
        """How many effects the provider really made for it."""
        done = [datetime.fromisoformat(each["done_at"]) for each in self.effects(task) if each["status"] == "succeeded"]
        return sum(after is None or moment > after for moment in done)

    def counts(self, task: int, kind: str) -> dict[str, int]:
        """What the provider counted for the task's effect of this kind, by its key."""
        [effect] = [each for each in self.effects(task) if each["kind"] == kind]
        return self.sandbox.counts(effect["key"])

    def facts(self, task: int, fact: str, **columns: Any) -> list[dict[str, Any]]:
        """The stored facts of a task, those that have these values."""
        rows = export.facts(Task.objects.get(pk=task))
        return [
            row for row in rows if row["fact"] == fact and all(row[name] == value for name, value in columns.items())
        ]

    def sent_after_stop(self, task: int) -> list[dict[str, Any]]:
        """Attempts to send that passed the gate after the stop was committed."""
        moment = self.stopped_at(task)
        attempts = self.facts(task, "attempt", what="submit")
        return [attempt for attempt in attempts if datetime.fromisoformat(attempt["at"]) > moment]

    def require_active(self, task: int, seen: Seen) -> None:
        """Its report reads as still active; TooSlow where its sender's lease was over, and "unknown" is the truth."""
        if seen.label("report") in ACTIVE:
            return
        kind = Broken
        if seen.label("report") == NAMES[Label.UNKNOWN] and self._lease_is_over(task):
            kind = TooSlow
        raise kind(f"task {task} does not read as still active: {seen}")

    def _lease_is_over(self, task: int) -> bool:
        leases = [fact["until"] for fact in self.facts(task, "attempt", what="submit")]
        return all(datetime.fromisoformat(until) <= datetime.now(UTC) for until in leases)

    def context(self, task: int, *, run: int) -> list[str]:
        """The texts of the results that a run was given."""
        return [entry["text"] for entry in Run(task, run).context()]

    def stopped_at(self, task: int) -> datetime:
        found = Task.objects.get(pk=task).stopped_at
        if found is None:
            raise Broken(f"task {task} is not stopped")
        return found

    def outcome(self, task: int, step: str) -> str:
        """What the agent's last job got for a step."""
        job = Job.objects.filter(task=task).latest("pk")
        return str(job.outcomes.get(step, ""))


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    """For what no page shows: look until it holds; Broken where it never does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise Broken(f"never seen: {what}")
        time.sleep(0.1)


def require(holds: bool, what: str) -> None:
    """Broken, in these words, unless it holds."""
    if not holds:
        raise Broken(what)
