"""R46: an agent in another process goes through gate, receipt and stop over HTTP, and the gate's promises hold."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from threading import Barrier
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django.fixtures import Settings

from agentstop import database, gate, lifecycle, remote
from agentstop.models import Attempt, Call, ContextEntry, Decision, Operation, Receipt, Run, Task
from agentstop.outcomes import Outcome
from agentstop.request import Request
from agentstop.stop import stop
from tests.api.conftest import Caller, RunAt, Token, begun
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)


def expire(operation: int) -> None:
    """The lease of its last attempt ended a moment ago."""
    past = database.now() - timedelta(seconds=1)
    Attempt.objects.filter(operation=operation).update(lease_until=past, passed_at=past - timedelta(hours=1))
    Operation.objects.filter(pk=operation).update(lease_until=past, due_at=past)


def test_a_whole_run(run: RunAt, ann: User) -> None:
    """R46, R8, R25: recorded before the answer, the result admitted, the report as the page tells it."""
    passed = run.gate()
    assert passed.status == 201 and passed.body["passed"] is True
    attempt = Attempt.objects.get(operation=passed.body["operation"])
    assert attempt.run == run.run and passed.body["idempotency_key"] == str(attempt.operation.idempotency_key)
    told = run.heard(passed, "succeeded", said={"id": "m-1"}, ref="m-1")
    assert (told.body["state"], told.body["got"]) == ("succeeded", "accepted")
    assert [entry.value for entry in ContextEntry.objects.all()] == [{"id": "m-1"}]
    again = run.gate()
    assert again.status == 200 and again.body["passed"] is False and again.body["result"] == {"id": "m-1"}
    assert run.agent.post(f"{run.path}/finish").body == {"done": True}
    report = Caller(user=ann).get(f"/tasks/{run.task}").body
    assert report["task"]["state"] == "finished"
    assert [each["label"] for each in report["operations"]] == ["completed"]


def test_after_a_stop_nothing_passes_and_the_agent_hears_it(run: RunAt) -> None:
    """R1, R7, R10: by the answer of the heartbeat, of the check and of the gate; the receipt of what had left stays."""
    sent = run.gate("mail:1")
    stopped = run.agent.post(f"/tasks/{run.task}/stop", reason="wrong list", run=run.run).body
    assert stopped["stopped"] and stopped["open"] == [sent.body["operation"]]
    refused = run.gate("mail:2")
    assert (refused.status, refused.reason) == (409, "stopped")
    assert Operation.objects.get(pk=refused.body["operation"]).attempts == 0
    for told in (run.agent.get(run.path), run.agent.post(f"{run.path}/heartbeat")):
        assert (told.body["live"], told.body["over"]) == (False, "stopped")
    late = run.heard(sent, "succeeded", said="done", ref="m-1")
    assert (late.body["state"], late.body["got"]) == ("succeeded", "ignored")
    assert not ContextEntry.objects.exists() and Call.objects.get().outcome == "ignored"
    assert run.agent.post(f"{run.path}/halted").body == {"done": True}
    assert Run.objects.get().halted_at is not None


def test_an_application_cannot_undo_a_stop(run: RunAt) -> None:
    """R4: only a person may begin a run of a task that was stopped."""
    stop(run.task)
    refused = run.agent.post(f"/tasks/{run.task}/runs")
    assert (refused.status, refused.reason) == (409, "stopped")


def test_a_lost_answer_is_unknown_and_the_same_key_tells_the_truth(run: RunAt) -> None:
    """R11, R12: the pass was committed: no second one is given, whoever asks, while that is not harmless."""
    run.gate()  # the answer is lost
    told = run.gate()
    assert (told.status, told.reason) == (409, "in_flight")
    operation = told.body["operation"]
    assert run.agent.get(f"/operations/{operation}").body["state"] == "sending"
    expire(operation)
    assert run.agent.get(f"/operations/{operation}").body["state"] == "unknown"
    told = run.gate()
    assert (told.status, told.reason) == (409, "outcome_unknown")
    assert Attempt.objects.count() == 1


def test_the_pass_is_committed_before_it_is_answered(run: RunAt) -> None:
    """R8: also where the site wraps each request in a transaction, which could be rolled back after the answer."""
    seen, whole = [], remote.enter

    def enter(request: Request) -> remote.Passed | Outcome:
        found = whole(request)
        seen.append(connection.in_atomic_block)
        return found

    with (
        mock.patch.dict(connection.settings_dict, ATOMIC_REQUESTS=True),
        mock.patch.object(remote, "enter", enter),
    ):
        assert run.gate().status == 201
    assert seen == [False]


def test_gates_and_a_stop_at_once(run: RunAt, ann: User, in_thread: InThread) -> None:
    """R7: each gate over HTTP is either in the stop's account or refused; of one key one passes."""
    asking, start = 6, Barrier(7)

    def ask(number: int) -> list[int]:
        own = RunAt(Caller(run.agent.headers["Authorization"].removeprefix("Bearer ")), run.task, run.run)
        start.wait(HANG_GUARD)
        return [own.gate(f"key:{number % 3}:{turn}").status for turn in range(4)]

    def press() -> dict[str, list[int]]:
        person = Caller(user=ann)
        start.wait(HANG_GUARD)
        told: dict[str, list[int]] = person.post(f"/tasks/{run.task}/stop").body
        return told

    asked = [in_thread(ask, number) for number in range(asking)]
    pressed = in_thread(press).result(HANG_GUARD)
    statuses = Counter(status for each in asked for status in each.result(HANG_GUARD))
    left = set(Attempt.objects.values_list("operation", flat=True))
    assert left == set(pressed["open"]) and Attempt.objects.count() == len(left) == statuses[201]
    assert set(statuses) <= {201, 409}


def test_without_the_gates_lock_the_race_would_be_lost(run: RunAt) -> None:
    """The check of the state is what refuses: taken out of the statement, the same request passes after a stop."""
    stop(run.task)
    assert run.gate().status == 409
    broken = {
        name: getattr(gate, name).replace("state = 'active' AND live_run = %(run)s AND", "")
        for name in ("SQLITE", "POSTGRESQL")
    }
    with mock.patch.multiple(gate, **broken):
        assert run.gate("mail:2").status == 201


def test_a_pass_is_renewed_by_the_heartbeat_and_not_beyond_its_deadline(run: RunAt) -> None:
    """R22: the process that sends says that it lives; what it does not renew is unknown, and stays so."""
    passed = run.gate(deadline=100)
    attempt = Attempt.objects.get()
    beat = run.agent.post(f"{run.path}/heartbeat", passes=[passed.body["pass"]])
    assert beat.body["renewed"] == [passed.body["operation"]] and beat.body["live"]
    attempt.refresh_from_db()
    assert attempt.lease_until > Operation.objects.get().created_at + timedelta(seconds=15)
    expire(passed.body["operation"])
    assert run.agent.post(f"{run.path}/heartbeat", passes=[passed.body["pass"]]).body["renewed"] == []


def test_no_pass_is_renewed_for_longer_than_its_deadline(run: RunAt) -> None:
    """By then its send has arrived, or never does: that is what the gate counts with."""
    passed = run.gate(deadline=100)
    Attempt.objects.update(passed_at=database.now() - timedelta(seconds=100 - passed.body["good_for"] + 1))
    before = Attempt.objects.get().lease_until
    assert run.agent.post(f"{run.path}/heartbeat", passes=[passed.body["pass"]]).body["renewed"] == []
    assert Attempt.objects.get().lease_until == before
    assert run.heard(passed, "succeeded").body["got"] == "accepted"  # the lease that it had is not over


def test_a_success_without_a_word_is_null_as_it_is_here(run: RunAt) -> None:
    """The result of a tool that returns nothing, and of its replay."""
    assert run.heard(run.gate(), "succeeded").body["got"] == "accepted"
    assert run.heard(run.gate("mail:2"), "lost").body["state"] == "unknown"
    assert [(each.value, each.form) for each in ContextEntry.objects.all()] == [(None, "json")]
    assert [(each.body, each.form) for each in Receipt.objects.order_by("pk")] == [("null", "json"), ("", "text")]
    again = run.gate().body
    assert (again["passed"], again["got"], again["result"]) == (False, "accepted", None)


def test_a_receipt_needs_the_pass_of_its_operation(run: RunAt) -> None:
    """Nobody says of another one's attempt that it was not sent: it could be sent again."""
    first, second = run.gate("mail:1"), run.gate("mail:2")
    for held in ("x", first.body["pass"][:-1], second.body["pass"]):
        path = f"/operations/{first.body['operation']}/receipts"
        told = run.agent.post(path, **{"pass": held, "claim": "unsent"})
        assert (told.status, told.reason) == (422, "bad_pass")
    other = begun(run.agent, "another")
    told = run.agent.post(f"{other.path}/heartbeat", passes=[first.body["pass"]])
    assert (told.status, told.reason) == (422, "bad_pass")
    assert not Receipt.objects.exists()
    assert run.heard(first, "unsent", said="no connection").body["state"] == "not_sent"
    assert run.gate("mail:1").body["attempt"] == 2  # proven unsent: it may leave again


def test_every_claim_is_what_it_is_in_the_process_itself(run: RunAt) -> None:
    """R14, R15: an acceptance, progress, failure and loss, each with the source that it has there."""
    passed = run.gate()
    assert run.heard(passed, "accepted", ref="job-1").body["state"] == "accepted"
    assert run.heard(passed, "progress", progress=0.5).body["state"] == "accepted"
    assert run.agent.get(f"/operations/{passed.body['operation']}").body["progress"] == 0.5
    assert run.heard(run.gate("mail:2"), "failed", said="no such address").body["state"] == "failed"
    assert run.heard(run.gate("mail:3"), "lost", said="timeout").body["state"] == "unknown"
    assert run.heard(passed, "progress").reason == "invalid"
    assert set(Receipt.objects.values_list("claim", "source")) == {
        ("accepted", "provider"), ("progress", "provider"), ("failed", "provider"), ("lost", "sender"),
    }  # fmt: skip


def test_a_pause_holds_the_agent_and_a_newer_run_takes_over(run: RunAt) -> None:
    """R33, R27."""
    assert run.agent.post(f"/tasks/{run.task}/pause").body == {"done": True}
    assert run.gate().reason == "paused"
    told = run.agent.get(run.path).body
    assert told["live"] and told["paused"]
    assert run.agent.post(f"/tasks/{run.task}/resume").body == {"done": True}
    newer = run.agent.post(f"/tasks/{run.task}/runs", run=run.run)
    assert newer.body["run"] == run.run + 1
    assert run.agent.post(f"/tasks/{run.task}/runs", run=run.run).reason == "superseded"
    assert run.gate().reason == "superseded"
    assert run.agent.get(run.path).body["over"] == "superseded"
    assert run.agent.post(f"/tasks/{run.task}/stop", run=run.run).body["why"] == "newer_run"


def test_a_task_is_found_by_its_subject(agent: Caller, ben: User, token: Token) -> None:
    """R44: by the host's own object; nobody finds what they may not see."""
    subject = f"auth.user:{ben.pk}"
    made = agent.post("/tasks", title="About ben", subject=subject)
    assert (made.status, made.body["subject"]) == (201, subject)
    agent.post("/tasks", title="About nobody")
    assert [each["id"] for each in agent.get("/tasks", subject=subject).body["tasks"]] == [made.body["id"]]
    assert Caller(token(ben)).get("/tasks", subject=subject).body == {"tasks": [], "before": None}
    page = agent.get("/tasks", limit=1).body
    older = agent.get("/tasks", limit=1, before=page["before"]).body
    assert [len(page["tasks"]), len(older["tasks"]), older["before"]] == [1, 1, None]
    for wrong in ("ben", "auth.user:", "auth.nothing:1", "auth.user:999999", "auth.user:ben"):
        assert agent.post("/tasks", title="x", subject=wrong).status == 422


def test_what_the_sites_own_rule_hides_is_in_no_page(agent: Caller, ann: User, settings: Settings) -> None:
    """No title is told of a task whose own address is not found; and every other one is reached."""
    settings.AGENTSTOP_MAY = f"{__name__}.not_secret"
    titles = ["1", "2", "Secret 3", "4", "Secret 5", "Secret 6"]
    made = {title: lifecycle.create(title, owner=ann).pk for title in titles}
    for limit in (1, 2, 3, 6, 50):
        told: list[str] = []
        page: dict[str, Any] = {"before": 2**63 - 1}
        while page["before"] is not None:
            page = agent.get("/tasks", limit=limit, before=page["before"]).body
            told += [each["title"] for each in page["tasks"]]
        assert told == ["4", "2", "1"]
    assert agent.get(f"/tasks/{made['Secret 6']}").status == 404


def not_secret(user: Any, permission: str, task: Task) -> bool:
    return not task.title.startswith("Secret")


def test_who_did_it_is_written_down(run: RunAt, ann: User) -> None:
    """R36: the person whose rights were used, and the application that used them."""
    told = run.agent.post(f"/tasks/{run.task}/stop").body
    assert told["stopped"]
    found = Decision.objects.get(task=run.task, verb="stop")
    assert (found.by, found.policy) == (User.objects.get(username="ann"), "api: node agent")


def test_a_person_presses_with_the_csrf_token_and_not_without(run: RunAt, ann: User) -> None:
    person = Caller(user=ann, csrf=True)
    refused = person.post(f"/tasks/{run.task}/stop")
    assert (refused.status, refused.reason) == (403, "csrf")
    cookie = "a" * 32
    person.client.cookies["csrftoken"] = cookie
    person.headers["X-CSRFToken"] = cookie
    assert person.post(f"/tasks/{run.task}/stop").body["stopped"]
