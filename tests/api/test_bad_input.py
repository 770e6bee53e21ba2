"""What does not fit is refused in words, and nothing is half done: bodies, fields, types, ids."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop.models import Attempt, Decision, Operation, Task
from tests.api.conftest import Caller, RunAt

pytestmark = pytest.mark.django_db(transaction=True)

GATE = {"action": "mail.send", "connector": "tools", "key": "k", "args": {}}


def rows() -> list[int]:
    return [model.objects.count() for model in (Task, Operation, Attempt, Decision)]


def gate(**changed: Any) -> str:
    return json.dumps(GATE | changed)


BODIES: dict[str, tuple[str | bytes, int, str]] = {
    "no body": ("", 422, "invalid"),
    "no JSON": ("{", 400, "malformed"),
    "no object": ("[]", 422, "invalid"),
    "a number that is none": ('{"args": {"n": NaN}}', 400, "malformed"),
    "not UTF-8": (b'{"key": "\xff"}', 400, "malformed"),
    "too deep": (gate(args=json.loads("[" * 60 + "]" * 60)), 400, "malformed"),
    "far too deep": ("[" * 100_000, 400, "malformed"),
    "an unknown field": (gate(force=True), 422, "invalid"),
    "a wrong type": (gate(key=7), 422, "invalid"),
    "text for a number": (gate(deadline="5"), 422, "invalid"),
    "endless": (gate(deadline=1e300), 422, "invalid"),
    "no key": (gate(key=""), 422, "invalid"),
    "a NUL": (gate(key="a\x00b"), 422, "invalid"),
    "a broken character": (gate(key="\ud800"), 422, "invalid"),
    "a long key": (gate(key="k" * 256), 422, "invalid"),
    "identifying what is not there": (gate(identify=["to"]), 422, "invalid"),
    "an unknown connector": (gate(connector="nowhere"), 422, "invalid"),
}


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_does_not_fit_sends_nothing(run: RunAt, case: str) -> None:
    body, status, reason = BODIES[case]
    before = rows()
    told = run.agent.send("post", f"{run.path}/operations", body)
    assert (told.status, told.reason) == (status, reason), told.body
    assert rows() == before


def test_fifty_megabytes_are_refused_and_odd_arguments_are_kept_safely(run: RunAt) -> None:
    before = rows()
    told = run.agent.send("post", f"{run.path}/operations", gate(args={"text": "x" * 50_000_000}))
    assert (told.status, told.reason) == (413, "too_large") and rows() == before
    odd = run.agent.send("post", f"{run.path}/operations", gate(args={"a\x00": "\ud800", "n": 10**400}))
    assert odd.status == 201
    heard = run.heard(odd, "succeeded", said={"a\x00": "\ud800"}, ref="r")
    assert heard.body["state"] == "succeeded"
    assert run.heard(odd, "succeeded", ref="r\x00").reason == "invalid"


def test_forms_and_methods_that_are_not_meant_are_refused(run: RunAt, ann: User) -> None:
    form = run.agent.send("post", f"/tasks/{run.task}/stop", "run=1", "application/x-www-form-urlencoded")
    assert (form.status, form.reason) == (415, "not_json")
    method = run.agent.send("delete", f"/tasks/{run.task}", "")
    assert (method.status, method.headers["Allow"]) == (405, "GET")
    assert run.agent.get("/nowhere").reason == run.agent.get("/").reason == "not_found"
    assert run.agent.get("/tasks", owner="ann").reason == "invalid"
    assert Task.objects.get().state == "active"


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", str(2**63), "9" * 400, "%00"])
def test_a_number_that_is_none(run: RunAt, number: str) -> None:
    for path in (
        f"/tasks/{number}",
        f"/operations/{number}",
        f"/questions/{number}",
        f"/tasks/{run.task}/runs/{number}",
    ):
        told = run.agent.get(path)
        assert (told.status, told.reason) == (422, "invalid"), path


def test_a_run_that_never_was_passes_nothing(run: RunAt) -> None:
    """Its number is not that of the live run: it has ended, or never begun."""
    ahead = RunAt(run.agent, run.task, run.run + 5)
    assert ahead.gate().reason == "finished"
    assert run.agent.get(ahead.path).body["over"] == "finished"
    assert run.agent.post(f"{ahead.path}/finish").body == {"done": False}


def test_a_stop_of_a_run_that_never_was_is_not_found(run: RunAt) -> None:
    """Nothing is stopped, and nothing recorded."""
    before = rows()
    told = run.agent.post(f"/tasks/{run.task}/stop", run=99)
    assert (told.status, told.reason) == (404, "not_found")
    assert "no run 99" in told.body["detail"]
    assert (Task.objects.get().state, rows()) == ("active", before)


def test_strangers_learn_nothing_from_passes_of_others(run: RunAt, ben: User, token: Any) -> None:
    passed = run.gate()
    other = RunAt(Caller(token(ben)), run.task, run.run)
    assert other.heard(passed, "unsent").reason == "not_found"
    assert other.gate().reason == "not_found"
    assert Operation.objects.get().state == "sending"
