"""The commands about tasks, runs and the gate: each is planned from what there is, and says what must come of it.

`a`, `b` and `c` choose. A move answers None where there is nothing to do it with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentstop import admission, gate, heartbeat, lifecycle, liveness, request, settle
from agentstop.models import Operation as OperationRow
from agentstop.models import Task as TaskRow
from agentstop.passes import Pass
from agentstop.pause import pause, resume
from agentstop.request import Request
from agentstop.runs import Run
from agentstop.states import RunState
from agentstop.stop import stop
from tests.soak.driver import DEADLINE, LEASE, Episode, Held, Step
from tests.soak.mirror import Task
from tests.soak.model import Expected, expected, gate_word, stop_word
from tests.soak.world import CONNECTOR, PROFILES

Move = Callable[[Episode, int, int, int], Step | None]
MOVES: dict[str, Move] = {}
WEIGHTS: dict[str, int] = {}
SHARED: set[str] = set()  # may be done at once with others


def move(weight: int, *, shared: bool = False) -> Callable[[Move], Move]:
    """Make it a command, drawn so often."""

    def name(function: Move) -> Move:
        MOVES[function.__name__] = function
        WEIGHTS[function.__name__] = weight
        if shared:
            SHARED.add(function.__name__)
        return function

    return name


def run_of(task: Task, number: int) -> int:
    """Mostly the last run, sometimes the one before it."""
    return max(0, task.last_run - (1 if number % 8 == 0 else 0))


# Tasks and runs


@move(3)
def new_task(episode: Episode, a: int, b: int, c: int) -> Step | None:
    if len(episode.mirror.all(Task)) >= episode.most_tasks:
        return None
    owner = (episode.people.ann, episode.people.ann, episode.people.ben)[a % 3].user
    if b % 4 == 0:

        def queue() -> str:
            lifecycle.create("a task", owner=owner)
            return "created"

        return Step("queue a task", queue, expected("created"))

    def begin() -> str:
        _, number = lifecycle.begin("a task", owner=owner, subject=None, by=None)
        return f"run {number}"

    return Step("begin a new task", begin, expected("run 1", "decision start applied"))


@move(6, shared=True)
def begin(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a, "stopped")
    if task is None or (task.live_run is not None and c % 4):
        return None
    person = episode.pick_person(b) if c % 5 else None

    def act() -> str:
        by = person.user if person is not None else None
        _, number = lifecycle.begin(task.id, owner=None, subject=None, by=by)
        return f"run {number}"

    return Step(f"begin a run of task {task.id} by {name(person)}", act, episode.model.begin(task.id, person))


def name(person: Any) -> str:
    return person.user.username if person is not None else "nobody"


@move(2, shared=True)
def check(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a)
    if task is None or not task.last_run:
        return None
    run = run_of(task, b)

    def act() -> str:
        liveness.check(task.id, run)
        return "goes on"

    return Step(f"check run {run} of task {task.id}", act, episode.model.check(task.id, run))


@move(1, shared=True)
def end(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a)
    if task is None or not task.last_run:
        return None
    run, state = run_of(task, b), RunState.FINISHED if c % 2 else RunState.FAILED
    verb = "finish" if c % 2 else "fail"

    def act() -> str:
        return str(liveness.end(task.id, run, state, "" if c % 2 else "it broke"))

    return Step(f"{verb} run {run} of task {task.id}", act, episode.model.end(task.id, run, verb))


@move(1, shared=True)
def halted(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a)
    if task is None or not task.last_run:
        return None
    run = run_of(task, b)

    def act() -> str:
        liveness.halted(task.id, run)
        return "noted"

    return Step(f"run {run} of task {task.id} says that it has halted", act, expected("noted"))


@move(3, shared=True)
def press_stop(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a)
    if task is None:
        return None
    if task.state == "stopped" and c % 2:
        return None
    person = episode.pick_person(b)
    run = (None, task.last_run, max(0, task.last_run - 1))[c % 3]

    def act() -> str:
        report = stop(task.id, by=person.user, run=run)
        return stop_word(report.why, report.open, report.never_sent)

    return Step(f"{name(person)} stops run {run} of task {task.id}", act, episode.model.stop(task.id, person, run))


@move(3, shared=True)
def press_pause(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Hold a task, or more often let it go on."""
    task = episode.pick_task(a, "paused")
    if task is None or (task.state != "paused" and c % 3):
        return None
    person = episode.pick_person(b)
    function = resume if task.state == "paused" and c % 6 else pause
    verb = function.__name__

    def act() -> str:
        return str(function(task.id, by=person.user))

    return Step(f"{name(person)} presses {verb} of task {task.id}", act, episode.model.pause(task.id, person, verb))


# The gate


def wish(episode: Episode, task: int, run: int, a: int, b: int) -> Request:
    """What the run asks for: the key names the action; rarely with other arguments than before."""
    action = episode.actions[a % len(episode.actions)]
    options: Any = {"connector": CONNECTOR, "key": action, "deadline": DEADLINE.total_seconds()}
    return request.make(task, run, action, {"text": "other" if b % 32 == 31 else "same"}, options)


@move(1, shared=True)
def prepare(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a)
    if task is None or not task.last_run:
        return None
    wanted = wish(episode, task.id, run_of(task, c), b, 1)

    def act() -> str:
        options: Any = {"connector": CONNECTOR, "key": wanted.key}
        Run(task.id, wanted.run).prepare(wanted.action, wanted.args, **options)
        return "listed"

    expect = episode.model.prepare(task.id, wanted.run, wanted.key, wanted.digest)
    return Step(f"run {wanted.run} lists {wanted.key} of task {task.id}", act, expect)


@move(18, shared=True)
def ask_gate(episode: Episode, a: int, b: int, c: int) -> Step | None:
    task = episode.pick_task(a, "active")
    if task is None or not task.last_run:
        return None
    run = run_of(task, c)
    wanted = wish(episode, task.id, run, b, c // 8)
    got: list[Pass] = []

    def act() -> str:
        found = gate.open_gate(wanted)
        incarnation = OperationRow.objects.values_list("incarnation", flat=True).get(pk=found.operation)
        if not isinstance(found, Pass):
            return f"replay of {incarnation}"
        got.append(found)
        return gate_word(incarnation, found.attempt)

    def after() -> None:
        now = episode.clock.virtual()
        for passed in got:
            episode.held.append(Held(passed, now, now + LEASE))
            if a % 3:  # a sender that does not stall
                episode.send(episode.held[-1], arrives=c % 5 != 0)

    capability = PROFILES[wanted.action]
    expect = episode.model.gate(task.id, run, wanted.key, wanted.action, wanted.digest, capability)
    return Step(f"run {run} of task {task.id} asks the gate for {wanted.key}", act, expect, after)


@move(2, shared=True)
def replay(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The result of an operation that has succeeded is wanted again."""
    operation = episode.pick_operation(a)
    if operation is None or operation.compensates_id is not None:
        return None
    run = run_of(episode.mirror.get(Task, operation.task_id), b)
    if not run or not any(r.claim == "succeeded" for r in episode.model.heard(operation.id)):
        return None

    def act() -> str:
        settled, _ = settle.admit_replay(operation.id, run)
        return str(settled.outcome)

    outcome = episode.model.admission(operation.id, run, "succeeded")
    expect = expected(outcome, *episode.model.calls(operation.id, run, outcome, entry=True))
    return Step(f"run {run} is given the result of {operation.id} again", act, expect)


@move(1, shared=True)
def admit(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The host's own sink."""
    operation = episode.pick_operation(a)
    if operation is None:
        return None
    run = run_of(episode.mirror.get(Task, operation.task_id), b)
    if not run:
        return None

    def act() -> str:
        with admission.admitting(operation.task_id, run, operation.id):
            TaskRow.objects.filter(pk=operation.task_id).exists()
        return "admitted"

    expect: Expected = episode.model.sink(operation.id, run)
    return Step(f"run {run} admits a result of {operation.id} by itself", act, expect)


@move(3, shared=True)
def renew(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A heartbeat."""
    if not episode.held:
        return None
    held = episode.held[a % len(episode.held)]
    attempt = episode.attempt(held.passed.operation, held.passed.attempt)
    if attempt is None:
        return None
    renewed: list[bool] = []

    def act() -> str:
        renewed.append(heartbeat.renew(held.passed))
        return str(renewed[-1])

    def after() -> None:
        if renewed == [True]:
            held.passed.lease.renew(episode.clock.ticks())
            held.good_until = episode.clock.virtual() + LEASE

    words = f"attempt {attempt.number} of {attempt.operation_id} renews its lease"
    return Step(words, act, episode.model.renew(attempt), after)
