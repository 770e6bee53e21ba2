"""Children: a stop reaches whoever works for the task, whenever they were spawned and whatever became of them.

R10, R31.

Shown elsewhere:

| case | where |
|---|---|
| children of a parent that has finished are reached by its stop | `test_family.py` |
| a child that restarts itself is still the child | `test_family.py` |
| a child of a run that is over is born stopped | `test_family.py` |
| no child escapes while eight threads spawn, link, begin and stop | `test_family.py` |
| children are paused and resumed with their parent | `test_pause.py` |
"""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth.models import User

from agentstop import sending
from agentstop.exceptions import Stopped
from agentstop.models import Attempt, Task
from agentstop.models import Run as RunRow
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.reports.acts import NOTIFY, ask, asked, assert_agrees, long_after, page, seen, words
from tests.reports.conftest import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)


class InlineChild:
    """An agent that runs another one within its own call: the child sends five times, then the parent does."""

    def __init__(self, parent: Run) -> None:
        self.parent, self.child = parent, begin("child", serves=[parent])
        self.told, self.go_on = threading.Event(), threading.Event()
        self.got: list[str] = []
        self.heard = ""

    def __call__(self) -> None:
        with self.parent:
            try:
                with self.child:
                    self.got += [asked(self.child, f"send {number}") for number in range(1, 6)]
                    self.child.check()
            except Stopped as error:
                self.heard = str(error)
            self.told.set()
            assert self.go_on.wait(HANG_GUARD)
            self.got.append(asked(self.parent, "own"))
            self.parent.check()


def test_a_child_stopped_alone_sends_nothing_more_and_its_parent_is_told_and_can_be_stopped_after_it(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The child is stopped in the middle of its third send, then the parent: nothing of either leaves after that."""
    parent = begin("parent", owner=ann)
    agent = InlineChild(parent)
    sandbox.hold("received", "send 3")
    ended = in_thread(pytest.raises, Stopped, agent)
    sandbox.wait("received", "send 3")
    stop(agent.child.task_id, by=ann)
    assert agent.told.wait(HANG_GUARD)
    assert f"task {agent.child.task_id}" in agent.heard
    assert (task_of(parent).state, task_of(parent).live_run) == ("active", parent.number)
    stop(parent.task_id, by=ann)
    agent.go_on.set()
    ended.result(HANG_GUARD)
    assert agent.got == ["accepted", "accepted", "ignored", "stopped", "stopped", "stopped"]
    sandbox.release("received", "send 3")
    sending.close()
    assert [effect["text"] for effect in sandbox.ledger()["effects"]] == ["send 1", "send 2", "send 3"]
    assert_agrees(sandbox, parent, agent.child)


def test_an_agent_that_is_ended_by_its_childs_stop_has_failed_and_does_not_stay_running_without_a_process(
    tools: None, ann: User
) -> None:
    """It lets the child's refusal through. Its own task was not stopped, and nobody is left who works on it."""
    parent = begin("parent", owner=ann)
    child = begin("child", serves=[parent])
    stop(child.task_id, by=ann)
    with pytest.raises(Stopped), parent:
        child.check()
    task, run = task_of(parent), RunRow.objects.get(task=parent.task_id)
    assert (task.state, task.live_run, run.state) == ("finished", None, "failed")
    assert f"task {child.task_id}" in run.error
    assert "The agent ended with an error." in page(ann, parent)


SPAWNED = 60


def test_the_number_of_children_freezes_when_a_spawning_parent_is_stopped(
    tools: None, in_thread: InThread, ann: User
) -> None:
    """Two threads spawn children without end; the stop comes at the tenth, and the spawners do not listen."""
    parent, tenth = begin("parent", owner=ann), threading.Event()

    def spawn(lane: int) -> tuple[int, int]:
        live = refused = 0
        for number in range(SPAWNED):
            try:
                child = begin(f"child {lane}.{number}", serves=[parent])
                live += 1
            except Stopped:
                refused += 1
                continue
            if number == 5:
                tenth.set()
            asked_of_tools(child)
        return live, refused

    spawners = [in_thread(spawn, lane) for lane in range(2)]
    assert tenth.wait(HANG_GUARD)
    report = stop(parent.task_id, by=ann)
    sent = Attempt.objects.count()
    live, refused = (sum(counted) for counted in zip(*(one.result(HANG_GUARD) for one in spawners), strict=True))
    assert live == report.descendants + finished_before(report.decision)
    assert live + refused == 2 * SPAWNED and refused > 0
    assert not Task.objects.filter(state__in=["active", "paused"]).exists()
    assert not RunRow.objects.filter(state="live").exists()
    assert RunRow.objects.exclude(task=parent.task_id).count() == live  # whoever was born stopped never had a run
    assert Attempt.objects.count() == sent
    assert list(differences()) == []


def asked_of_tools(child: Run) -> None:
    child.call("write", connector="tools", key="k", send=lambda op: "sent")


def finished_before(decision: int) -> int:
    return Task.objects.filter(serves__isnull=False, state="finished").exclude(stop_decision=decision).count()


def test_a_parent_starts_no_new_turn_because_its_child_has_ended(tools: None, in_thread: InThread, ann: User) -> None:
    """The child's end wakes the parent's loop after the stop: it goes no further, and no run is begun."""
    parent, child_ended = begin("parent", owner=ann), threading.Event()
    child, turns = begin("child", serves=[parent]), list[int]()

    def agent() -> None:
        with parent:
            for turn in range(3):
                parent.check()
                turns.append(turn)
                assert child_ended.wait(HANG_GUARD)

    ended = in_thread(pytest.raises, Stopped, agent)
    stop(parent.task_id, by=ann)
    assert child.finish() is False
    child_ended.set()
    ended.result(HANG_GUARD)
    assert len(turns) <= 1
    assert (task_of(parent).last_run, task_of(child).last_run) == (1, 1)
    assert [task_of(run).state for run in (parent, child)] == ["stopped", "stopped"]


def test_a_tree_of_three_levels_with_one_dead_child_is_closed_to_its_last_operation(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User
) -> None:
    """The process of the lowest one is killed in its send: the stop waits for nobody, and a look-up tells the rest."""
    root = begin("root", owner=ann)
    middle = begin("middle", serves=[root])
    leaf, other = begin("leaf", serves=[middle]), begin("other leaf", serves=[middle])
    worker = start_worker()
    sandbox.hold("effect", "job")
    worker.start("job", leaf, NOTIFY, words("job"))
    sandbox.wait("effect", "job")
    worker.kill()
    report = stop(root.task_id, by=ann)
    assert report.descendants == 3
    assert [task_of(run).state for run in (root, middle, leaf, other)] == ["stopped"] * 4
    assert [asked(run, "late") for run in (root, middle, leaf, other)] == ["stopped"] * 4
    assert seen(leaf, "job").label is Label.STILL_ACTIVE
    sandbox.release("effect", "job")
    long_after(leaf)
    assert seen(leaf, "job").label is Label.UNKNOWN
    while work():
        pass
    assert seen(leaf, "job").label is Label.COMPLETED_BEFORE
    assert_agrees(sandbox, root, middle, leaf, other)


def test_a_child_that_others_wait_for_goes_on_with_its_work(sandbox: SandboxClient, ann: User) -> None:
    """One of two parents is stopped: the shared child's sends still leave, for the one that needs it."""
    one, other = begin("one", owner=ann), begin("other", owner=ann)
    child = begin("child", serves=[one, other])
    assert [(held.task, held.by) for held in stop(one.task_id, by=ann).goes_on] == [(child.task_id, other.task_id)]
    assert ask(child, "for the other").accepted
    stop(other.task_id, by=ann)
    assert asked(child, "for nobody") == "stopped"
    assert len(sandbox.ledger()["effects"]) == 1
