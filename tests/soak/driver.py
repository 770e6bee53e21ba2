"""One life of the real database beside the world: steps are taken from several connections, and checked after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agentstop import passes, reconcile, verify
from agentstop.passes import Pass
from agentstop.states import Claim
from tests.soak import connector, mirror, promises
from tests.soak.clock import Clock, empty_database
from tests.soak.crew import Crew
from tests.soak.mirror import Attempt, Mirror, Operation, Task, Violation
from tests.soak.model import Expected, Model, Person
from tests.soak.world import ACTIONS, SETTLING, Job, Letter, Sent, World, hours

LEASE, MARGIN, DEADLINE = hours(1.5), hours(1), hours(6.5)
ON_ITS_WAY = DEADLINE + MARGIN + SETTLING  # from the gate
SETTINGS = {
    "AGENTSTOP_CONNECTORS": {"world": {"PROVIDER": "tests.soak.connector.WorldProvider"}},
    "AGENTSTOP_LEASE": LEASE.total_seconds(),
    "AGENTSTOP_LEASE_MARGIN": MARGIN.total_seconds(),
    "AGENTSTOP_DEADLINE": DEADLINE.total_seconds(),
    "AGENTSTOP_CANCEL_DEADLINE": hours(10.5).total_seconds(),
    "AGENTSTOP_FOLLOW_UP_BASE": hours(0.5).total_seconds(),
    "AGENTSTOP_FOLLOW_UP_CAP": hours(4).total_seconds(),
}
VERIFY_EACH = 20  # steps between two runs of the product's own comparison of states with facts


class Command(NamedTuple):
    """What is to be done next; the numbers choose among what there is."""

    name: str
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass
class Held:
    """A pass in the hands of a sender."""

    passed: Pass
    began: datetime  # by the virtual clock, as the next one
    good_until: datetime
    written: bool = False

    @property
    def run(self) -> int:
        return self.passed.request.run


@dataclass
class Step:
    """One command, planned: what to do, what must come of it, and what the senders know afterwards."""

    words: str
    act: Callable[[], str]
    expect: Expected | None = None
    after: Callable[[], None] = lambda: None


@dataclass
class Look:
    """A look-up of somebody else's that is under way."""

    operation: int
    ref: str
    asked: Any  # by the virtual clock
    found: Any = None


@dataclass
class People:
    """Who presses and asks."""

    ann: Person
    ben: Person
    vera: Person
    olga: Person


@dataclass
class Episode:
    """One life of a database, from nothing. `predicting`: single commands are compared with the model's words too."""

    people: People
    crew: Crew
    predicting: bool = True
    clock: Clock = field(default_factory=Clock)
    held: list[Held] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        empty_database()
        passes.ticks = self.clock.ticks
        self.world = World(self.clock)
        connector.install(self.world)
        self.mirror = mirror.read()
        self.model = Model(self.mirror, ON_ITS_WAY)

    def choose(self, first: Command) -> None:
        """What this life is about: few tasks and kinds of effects, so that much happens to each."""
        self.most_tasks = (1, 1, 2, 3)[first.a % 4]
        self.actions = sorted({ACTIONS[first.b % len(ACTIONS)], ACTIONS[first.c % len(ACTIONS)]})
        self.world.undone_reads_as = (Claim.SUCCEEDED, Claim.CANCELLED, Claim.NOT_FOUND)[first.a // 4 % 3]

    # Steps

    def alone(self, step: Step | None = None) -> None:
        """One command; its word and what it added are as the model said before."""
        if step is None:
            return
        before = self.mirror
        (word,) = self.crew.do([step.act])
        self.log.append(f"{step.words} -> {word}")
        self.look(before)
        step.after()
        if step.expect is not None and self.predicting:
            found = Expected(word, tuple(mirror.added(before, self.mirror)))
            if found != step.expect:
                raise Violation(f"{step.words}: expected {step.expect}, and found {found}")
        self.check()

    def at_once(self, steps: Sequence[Step]) -> None:
        """Several commands behind a barrier, after which only the promises are checked."""
        if not steps:
            return
        before = self.mirror
        words = self.crew.do([step.act for step in steps])
        self.log.append("at once: " + "; ".join(f"{s.words} -> {w}" for s, w in zip(steps, words, strict=True)))
        self.look(before)
        for step in steps:
            step.after()
        self.check()

    def look(self, before: Mirror) -> None:
        self.steps += 1
        self.mirror = mirror.read(before)
        mirror.require_only_additions(before, self.mirror)

    def check(self) -> None:
        self.model = Model(self.mirror, ON_ITS_WAY)
        promises.require_fenced(self.mirror)
        promises.require_frozen(self.mirror)
        promises.require_own_pass(self.mirror, [held.passed for held in self.held])
        promises.require_states(self.mirror)
        promises.require_no_double(self.mirror, self.world)
        promises.require_one_open_incarnation(self.mirror)
        promises.require_truth(
            self.mirror, self.world, {one.passed.operation for one in self.held if self.writable(one)}
        )
        if self.steps % VERIFY_EACH == 0:
            self.verify()

    def verify(self) -> None:
        for difference in verify.differences():
            raise Violation(str(difference))

    # Time

    def travel(self, by: timedelta) -> None:
        """Wait. What is in the air arrives while it still can, or never does."""
        for sent in list(self.world.flights):
            settled = self.settled_at(sent)
            if settled is None or settled <= self.clock.now() + by:
                if settled is not None and settled > self.clock.now() and self.world.random.random() < 0.5:
                    self.arrive(sent)
                else:
                    self.world.flights.remove(sent)
        before = self.mirror
        self.clock.travel(by)
        self.mirror = mirror.read()
        for kind, row in mirror.moved_back(before, by):
            if self.mirror.rows[kind].get(row.id) != row:
                raise Violation(f"the time machine has made {self.mirror.rows[kind].get(row.id)!r} of {row!r}")
        self.log.append(f"{by} pass")
        self.steps += 1
        self.check()

    def settled_at(self, sent: Sent) -> Any:
        """Until when it may arrive and show: written by the deadline, then on its way as long as "not found" waits."""
        attempt = self.attempt(sent.operation, sent.number)
        return min(attempt.settled_at, attempt.passed_at + ON_ITS_WAY) if attempt is not None else None

    def attempt(self, operation: int, number: int) -> Attempt | None:
        return next((one for one in self.mirror.submits(operation) if one.number == number), None)

    def send(self, held: Held, *, arrives: bool) -> None:
        """The last check was passed: the bytes are in the air, or with the provider already."""
        passed = held.passed
        held.written = True
        sent = Sent(passed.operation, passed.attempt, passed.request.action, passed.idempotency_key.replace("-", ""))
        self.world.flights.append(sent)
        if arrives:
            self.arrive(sent)

    def arrive(self, sent: Sent) -> Letter:
        settled = self.settled_at(sent)
        letter = self.world.arrive(sent, settled + self.clock.travelled)
        self.log.append(f"attempt {sent.number} of {sent.operation} arrives: {letter.claim} {letter.ref}")
        return letter

    def writable(self, held: Held) -> bool:
        """Whether its sender may still write: the model of `Pass.check`."""
        now = self.clock.virtual()
        return not held.written and now < min(held.good_until, held.began + DEADLINE)

    # The end

    def converge(self) -> None:
        """Everybody answers from now on: each operation ends where the ledger is, or is honestly unknown."""
        self.world.calm = True
        for sent in list(self.world.flights):
            self.arrive(sent)
        for job in self.world.jobs:
            self.world.end(job, self.world.random.choice(_ENDS))
        self.held.clear()
        self.check()
        for _ in range(9):
            self.travel(hours(8))
            before = self.mirror
            reconcile.work()
            self.look(before)
            self.check()
        self.verify()
        promises.require_convergence(self.mirror, self.world)

    # What there is to choose from

    def pick_task(self, number: int, state: str = "") -> Task | None:
        """Mostly one in this state, if there is any."""
        tasks = self.mirror.all(Task)
        fitting = [task for task in tasks if task.state == state]
        tasks = fitting if fitting and number % 4 else tasks
        return tasks[number % len(tasks)] if tasks else None

    def pick_operation(self, number: int, *states: str) -> Operation | None:
        """The number counts from the newest; mostly one in these states is wanted, if any."""
        operations = self.mirror.all(Operation)
        fitting = [one for one in operations if one.state in states]
        operations = fitting if fitting and number % 4 else operations
        return operations[-1 - number % len(operations)] if operations else None

    def pick_job(self, number: int) -> Job | None:
        return self.world.jobs[-1 - number % len(self.world.jobs)] if self.world.jobs else None

    def pick_person(self, number: int) -> Person:
        people = self.people
        return (*[people.ann] * 4, *[people.olga] * 3, people.ben, people.vera)[number % 9]


_ENDS = (Claim.SUCCEEDED, Claim.FAILED, Claim.CANCELLED)
