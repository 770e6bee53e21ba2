"""R33 in families: one rule at every moment. A child goes on while one live run that it works for is not held.

What is paused, and by which pauses, is compared with a second way to find it after each thing that happens to a family.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence, Set
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User

from agentstop import holds, lifecycle, liveness, spawning
from agentstop import pause as pausing
from agentstop.exceptions import Refused
from agentstop.lifecycle import create
from agentstop.models import Decision, ServingLink, Task
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin, serve
from agentstop.signals import tasks_paused, tasks_resumed
from agentstop.stop import stop
from agentstop.verify import differences
from tests import graph

pytestmark = pytest.mark.django_db(transaction=True)


def states(*runs: Run) -> list[str]:
    return [str(Task.objects.get(pk=run.task_id).state) for run in runs]


@pytest.fixture
def pair(ann: User) -> tuple[Run, Run, Run]:
    """A child that two runs share, and they."""
    one, two = begin("one", owner=ann), begin("two", owner=ann)
    return one, two, begin("shared", serves=[one, two])


class TestAChildOfTwo:
    """Held where both are, whichever was first and however they came to be."""

    def test_is_held_when_both_are_paused_and_goes_on_when_one_is_resumed(self, pair: tuple[Run, Run, Run]) -> None:
        one, two, shared = pair
        below = begin("below", serves=[shared])
        pause(one.task_id)
        assert states(shared, below) == ["active", "active"]
        pause(two.task_id)
        assert states(shared, below) == ["paused", "paused"]
        resume(one.task_id)
        assert states(shared, below) == ["active", "active"]
        pause(one.task_id)
        assert states(shared, below) == ["paused", "paused"]
        assert not list(differences())

    @pytest.mark.parametrize(
        "end",
        [
            lambda run: run.finish(),
            lambda run: run.fail("x"),
            lambda run: stop(run.task_id),
            lambda run: begin(run.task_id),
        ],
        ids=["finish", "fail", "stop", "a newer run"],
    )
    def test_is_held_when_the_one_that_was_not_held_is_over(
        self, pair: tuple[Run, Run, Run], end: Callable[[Run], object]
    ) -> None:
        one, two, shared = pair
        pause(one.task_id)
        end(two)
        assert states(shared) == ["paused"]
        resume(one.task_id)
        assert states(shared) == ["active"]
        assert not list(differences())

    def test_is_let_go_once_it_serves_a_run_that_is_not_held(self, ann: User, pair: tuple[Run, Run, Run]) -> None:
        one, two, shared = pair
        pause(one.task_id)
        pause(two.task_id)
        third = begin("third", owner=ann)
        serve(shared.task_id, third)
        assert states(shared) == ["active"]
        pause(third.task_id)
        assert states(shared) == ["paused"]
        assert not list(differences())


def test_serving_only_what_is_held_holds_and_who_is_told_hears_of_it(ann: User) -> None:
    parent = begin("parent", owner=ann)
    queued = create("queued", owner=ann)
    heard: list[tuple[str, tuple[int, ...], str]] = []

    def paused(tasks: tuple[int, ...], reason: str, **_: object) -> None:
        heard.append(("paused", tasks, reason))

    def resumed(tasks: tuple[int, ...], reason: str, **_: object) -> None:
        heard.append(("resumed", tasks, reason))

    tasks_paused.connect(paused)
    tasks_resumed.connect(resumed)
    pause(parent.task_id, by=ann, reason="let me look")
    serve(queued, parent)
    assert Task.objects.get(pk=queued.pk).state == "paused"
    serve(queued, begin("free", owner=ann))
    assert Task.objects.get(pk=queued.pk).state == "active"
    assert heard == [
        ("paused", (parent.task_id,), "let me look"),
        ("paused", (queued.pk,), "let me look"),
        ("resumed", (queued.pk,), ""),
    ]
    handed = Decision.objects.get(task=queued.pk, verb="pause")
    assert (handed.policy, handed.by, handed.reason) == ("family", ann, "let me look")


def test_what_a_run_that_has_ended_has_left_is_held_with_what_that_worked_for(ann: User) -> None:
    root = begin("root", owner=ann)
    middle = begin("middle", serves=[root])
    left = begin("left", serves=[middle])
    middle.finish()
    pause(root.task_id)
    assert states(left) == ["paused"]
    newer = begin("newer", owner=ann)
    again = begin(middle.task_id, serves=[newer])  # it is at work again, for one that is not held
    assert states(left, again) == ["active", "active"]
    pause(newer.task_id)
    assert states(left, again) == ["paused", "paused"]
    assert not list(differences())


def test_a_detached_child_that_a_held_run_begins_waits_for_it_once(ann: User) -> None:
    """As with a stop: one that is there goes on, and nothing escapes by being begun a moment later."""
    parent = begin("parent", owner=ann)
    there = begin("there", serves=[parent], detached=True)
    pause(parent.task_id)
    born = begin("born", serves=[parent], detached=True)
    assert states(there, born) == ["active", "paused"]
    resume(parent.task_id)
    pause(parent.task_id)
    assert states(there, born) == ["active", "active"]
    assert not list(differences())


class Life:
    """A small family to which things happen, and what the rule says after each of them."""

    def __init__(self, owner: User, seed: int) -> None:
        self.owner, self.chance = owner, random.Random(seed)  # noqa: S311  a seeded course of events
        self.runs = [begin(f"root {number}", owner=owner) for number in range(3)]
        self.let = set[int]()
        for _ in range(4):
            self.spawn()

    def some(self) -> Run:
        """A run of a task that is not over, mostly; of one that is, sometimes."""
        alive = {*Task.objects.filter(state__in=graph.ALIVE).values_list("pk", flat=True)}
        runs = [run for run in self.runs if run.task_id in alive or self.chance.random() < 0.1]
        return self.chance.choice(runs or self.runs)

    def serving(self) -> list[Run]:
        return list({self.some() for _ in range(self.chance.choice([1, 2, 2]))})

    def happen(self) -> None:
        """One thing; those that a run has asked for by it need their parents, whatever they are."""
        verbs = {
            self.spawn: 4, self.link: 4, self.again: 3, self.pause: 6, self.resume: 5, self.finish: 3, self.stop: 1,
        }  # fmt: skip
        try:
            self.chance.choices([*verbs], [*verbs.values()])[0]()
        except (Refused, ValueError):
            return

    def spawn(self) -> None:
        self.runs.append(begin("child", serves=self.serving(), detached=self.chance.random() < 0.25))

    def link(self) -> None:
        serve(self.some().task_id, self.some())

    def again(self) -> None:
        one, serves = self.some(), self.serving() if self.chance.random() < 0.3 else []
        links = ServingLink.objects.filter(parent=one.task_id, parent_run=one.number)
        keep = [child for child in links.values_list("child", flat=True) if self.chance.random() < 0.5]
        by = self.owner if self.chance.random() < 0.5 else None
        self.runs.append(begin(one.task_id, serves=serves, keep=keep, by=by))
        if serves:
            self.let.discard(one.task_id)

    def pause(self) -> None:
        pause(self.some().task_id)

    def resume(self) -> None:
        resume(self.some().task_id)

    def finish(self) -> None:
        one = self.some()
        one.finish() if self.chance.random() < 0.7 else one.fail("it broke")

    def stop(self) -> None:
        stop(self.some().task_id)

    def faults(self) -> list[tuple[int, Set[int], Set[int]]]:
        """The tasks that are held by other pauses than the rule says."""
        found = graph.read()
        said = {task: graph.held(found, task, self.let) for task in found.tasks if found.alive(task)}
        wrong: list[tuple[int, Set[int], Set[int]]] = [
            (task, found.handed[task], held) for task, held in said.items() if found.handed[task] != held
        ]
        wrong += [
            (task, set(), held)
            for task, held in said.items()
            if (found.tasks[task].state == "paused") != bool(held | found.own[task])
        ]
        self.let |= {task for task, held in said.items() if found.goes_its_own_way(task) and not held}
        return wrong


STEPS, SEEDS = 40, 5


def lives(owner: User, seeds: Sequence[int]) -> list[tuple[int, Set[int], Set[int]]]:
    """The first faults that are found in these lives."""
    for seed in seeds:
        life = Life(owner, seed)
        for _ in range(STEPS):
            life.happen()
            if faults := life.faults():
                return faults
    return []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_to_a_family_the_rule_says_who_is_held_and_by_what(ann: User, seed: int) -> None:
    assert lives(ann, [seed]) == []
    assert Decision.objects.filter(verb="pause", policy="family").exists()
    assert list(differences()) == []


@pytest.mark.parametrize("verb", [spawning, lifecycle, liveness, pausing], ids=lambda verb: verb.__name__)
def test_a_verb_that_forgets_the_rule_is_found(ann: User, verb: object, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = SimpleNamespace(apply=lambda *_, **__: [], open_causes=holds.open_causes)
    monkeypatch.setattr(verb, "holds", forgetful)
    assert lives(ann, range(SEEDS))
