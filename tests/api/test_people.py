"""People and agents over HTTP: questions asked and answered, changes waited for."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop.stop import stop
from tests.api.conftest import Caller, RunAt
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_agent_asks_polls_and_is_answered(run: RunAt, ann: User) -> None:
    """The same key is the same question; its answer is taken by the run."""
    wish = {"key": "q", "text": "Which channel?", "choices": ["#team", "#all"]}
    asked = run.agent.post(f"{run.path}/questions", **wish)
    assert (asked.status, asked.body["state"]) == (200, "pending")
    question = f"/questions/{asked.body['id']}"
    person = Caller(user=ann)
    assert person.post(f"{question}/answer", value="#none").reason == "invalid"
    assert person.post(f"{question}/answer", value="#all").body["value"] == "#all"
    again = run.agent.post(f"{run.path}/questions", **wish).body
    assert (again["id"], again["state"], again["value"]) == (asked.body["id"], "applied", "#all")
    assert person.post(f"{question}/decline").reason == "not_open"
    assert run.agent.post(f"{run.path}/questions", **wish | {"text": "Another?"}).reason == "key_reused"


def test_a_question_that_is_declined_and_one_of_a_run_that_is_over(run: RunAt, ann: User) -> None:
    wish = {"key": "q", "text": "Send it?", "kind": "approve"}
    asked = run.agent.post(f"{run.path}/questions", **wish).body
    Caller(user=ann).post(f"/questions/{asked['id']}/decline", reason="too early")
    told = run.agent.post(f"{run.path}/questions", **wish).body
    assert (told["state"], told["reason"]) == ("declined", "too early")
    stop(run.task)
    assert run.agent.post(f"{run.path}/questions", key="r", text="And now?").reason == "stopped"


def test_an_application_is_no_person(run: RunAt) -> None:
    """R4: neither begins it a stopped task, nor does it answer for somebody."""
    asked = run.agent.post(f"{run.path}/questions", key="q", text="Send it?", kind="approve").body
    for verb in ("answer", "decline"):
        assert run.agent.post(f"/questions/{asked['id']}/{verb}").reason == "not_for_applications"


def test_a_change_ends_the_wait_and_nothing_is_lost_before_it(run: RunAt, ann: User, in_thread: InThread) -> None:
    """R37: by long poll from a cursor, which is the whole truth whenever it answers."""
    person = Caller(user=ann)
    first = person.get(f"/tasks/{run.task}/events").body
    assert first["report"]["task"]["state"] == "active"
    same = person.get(f"/tasks/{run.task}/events", cursor=first["cursor"]).body
    assert same == {"cursor": first["cursor"], "report": None}
    waiting = in_thread(person.get, f"/tasks/{run.task}/events", cursor=first["cursor"], wait=25)
    stop(run.task, by=ann)
    told = waiting.result(HANG_GUARD).body
    assert told["report"]["task"]["state"] == "stopped" and told["cursor"] == told["report"]["cursor"]
    assert person.get(f"/tasks/{run.task}/events", wait=26).status == 422
