"""Agents over HTTP that begin others, wait for them, and ask before they send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop.models import Operation, Question, Task
from agentstop.stop import stop
from tests.api.conftest import Answer, Caller, RunAt, Token, begun
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)


def child_of(run: RunAt, **more: Any) -> RunAt:
    told = run.agent.post(f"{run.path}/children", title="child", **more)
    assert told.status == 201
    return RunAt(run.agent, told.body["task"], told.body["run"])


def test_a_child_is_begun_waited_for_and_ends_with_its_parent(run: RunAt, in_thread: InThread) -> None:
    """R31: the same key is the same child; nothing of it passes once the parent was stopped."""
    child, other = child_of(run, key="c"), child_of(run)
    path = f"{run.path}/children/{child.task}"
    assert run.agent.get(path).body == {"child": child.task, "state": None}
    waiting = in_thread(run.agent.get, path, wait=25)
    assert child.agent.post(f"{child.path}/finish").body == {"done": True}
    assert waiting.result(HANG_GUARD).body["state"] == "finished"
    assert child_of(run, key="c") == child
    assert other.gate("k").status == 201
    stop(run.task)
    assert other.gate("l").reason == "stopped"
    assert Task.objects.get(pk=other.task).state == "stopped"
    assert run.agent.get(f"{run.path}/children/{other.task}").reason == "stopped"
    assert run.agent.post(f"{run.path}/children", title="late").reason == "stopped"


def test_a_child_that_was_stopped_by_itself_is_told_so(run: RunAt, agent: Caller) -> None:
    child, other = child_of(run), begun(agent)
    assert run.agent.post(f"{run.path}/children/{other.task}").body == {"done": True}
    assert agent.post(f"{other.path}/children/{run.task}").reason == "closes_a_ring"
    stop(child.task)
    assert run.agent.get(f"{run.path}/children/{child.task}").reason == "child_stopped"
    assert run.agent.get(f"{run.path}/children/{begun(agent).task}").reason == "invalid"
    assert run.agent.post(f"{run.path}/children", title="x", key="a\x00").reason == "invalid"
    kept = run.agent.post(f"/tasks/{run.task}/runs", keep=[other.task])
    assert kept.status == 201 and Task.objects.get(pk=other.task).state == "active"
    assert run.agent.post(f"/tasks/{run.task}/runs", keep=[10**9]).reason == "invalid"


def test_nobody_hangs_work_on_tasks_of_others(run: RunAt, ben: User, token: Token) -> None:
    other = begun(Caller(token(ben)))
    assert other.agent.post(f"{run.path}/children", title="x").reason == "not_found"
    assert other.agent.post(f"{other.path}/children/{run.task}").reason == "not_found"
    assert other.agent.get(f"{other.path}/children/{run.task}").reason == "not_found"


def asks(run: RunAt, **more: Any) -> Answer:
    return run.gate(approve="Send it to Ben?", **more)


def test_a_call_that_needs_a_yes_passes_after_it(run: RunAt, ann: User, in_thread: InThread) -> None:
    """The gate is not asked before: 202 names the question, and a yes is to this request alone."""
    waits = asks(run)
    assert (waits.status, waits.body["passed"], waits.body["question"]["state"]) == (202, False, "pending")
    assert asks(run).body["question"]["id"] == waits.body["question"]["id"]
    assert Operation.objects.get().attempts == 0
    waiting = in_thread(run.agent.send, "post", f"{run.path}/operations?wait=25", WISH)
    Caller(user=ann).post(f"/questions/{waits.body['question']['id']}/answer")
    told = waiting.result(HANG_GUARD)
    assert (told.status, told.body["passed"]) == (201, True) and Operation.objects.get().attempts == 1
    run.heard(told, "succeeded", said="sent")
    again = asks(run)
    assert (again.status, again.body["result"], Question.objects.count()) == (200, "sent", 1)
    assert asks(run, key="mail:2", args={"to": "carl"}).status == 202
    assert run.gate(approve=" ", key="mail:3").reason == "invalid"


WISH = json.dumps(
    {"action": "mail.send", "connector": "tools", "args": {"to": "ben"}, "key": "mail:1", "approve": "Send it to Ben?"}
)


def test_a_call_that_is_declined_or_too_late_sends_nothing(run: RunAt, ann: User) -> None:
    number = asks(run).body["question"]["id"]
    Caller(user=ann).post(f"/questions/{number}/decline", reason="no")
    declined = asks(run)
    assert (declined.status, declined.reason) == (409, "declined") and declined.body["operation"]
    asks(run, key="mail:2")
    stop(run.task, by=ann)
    assert asks(run, key="mail:2").reason == "stopped"
    assert set(Operation.objects.values_list("attempts", flat=True)) == {0}
