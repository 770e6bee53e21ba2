"""What is on record when the first byte leaves, read from outside at that moment (R8), and that it only grows (R36)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Model, ProtectedError
from pytest_django.fixtures import Settings

from agentstop import conf, reconcile
from agentstop.compensate import compensate
from agentstop.dispatched import Dispatched
from agentstop.models import Attempt, Call, Decision, Operation, Receipt, Task
from agentstop.runs import Run, begin
from agentstop.settlement import settle_by_hand
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.passing import let_pass
from tests.reports.acts import NOTIFY, REPORT, UPLOAD, words

pytestmark = pytest.mark.django_db(transaction=True)


def test_all_of_it_is_committed_before_a_tool_sends(tools: None, in_thread: InThread) -> None:
    """R8."""
    run, seen = begin("Write"), list[dict[str, Any]]()

    def on_record() -> dict[str, Any]:
        operation = Operation.objects.get(task=run.task_id)
        named = ("key", "connector", "action", "digest", "summary", "idempotency_key")
        tried = Attempt.objects.filter(operation=operation).values("verb", "number", "run", "passed_at", "lease_until")
        return {name: getattr(operation, name) for name in named} | tried.get()

    def tool(op: Dispatched) -> str:
        seen.append(in_thread(on_record).result(HANG_GUARD))  # by a connection that sees what is committed alone
        assert str(seen[0]["idempotency_key"]) == op.idempotency_key
        return "done"

    args = {"to": "everybody", "api_key": "s3cret", "text": "x" * 10_000}
    assert in_thread(run.call, "write", args, connector="tools", key="k", send=tool).result(HANG_GUARD).accepted
    [found] = seen
    assert [found[name] for name in ("key", "connector", "action")] == ["k", "tools", "write"]
    assert [found[name] for name in ("verb", "number", "run")] == ["submit", 1, run.number]
    assert found["passed_at"] < found["lease_until"]
    assert re.fullmatch("[0-9a-f]{64}", found["digest"]) and found["idempotency_key"]
    assert "everybody" in found["summary"] and "s3cret" not in found["summary"]
    assert len(found["summary"]) <= conf.SUMMARY_CAP


def test_it_is_committed_before_the_provider_accepts(sandbox: SandboxClient, in_thread: InThread) -> None:
    """R8. By the provider's own clock, which is this machine's."""
    run = begin("Notify")
    sandbox.hold("received", "job")
    called = in_thread(run.call, NOTIFY, words("job"), connector="sandbox", key="job")
    sandbox.wait("received", "job")
    attempt = Attempt.objects.get(operation__task=run.task_id)  # nothing is accepted yet, and it is there
    assert sandbox.ledger()["effects"] == []
    sandbox.release("received", "job")
    assert called.result(HANG_GUARD).accepted
    [effect] = sandbox.ledger()["effects"]
    assert attempt.passed_at < datetime.fromisoformat(effect["accepted_at"])


FACTS = "decision|attempt|receipt|call"
CHANGES = re.compile(rf'UPDATE "agentstop_({FACTS})" (?:AS \w+ )?SET (.*?)(?: WHERE|$)', re.DOTALL)
LOSES = re.compile(rf'DELETE FROM "agentstop_({FACTS})"')  # noqa: S608  a pattern, not a statement
ONE_WAY = {("attempt", "lease_until"), ("decision", "count")}  # later, and up


class Written:
    """What is done to rows of facts that are there, over every connection, old and new."""

    def __init__(self) -> None:
        self.changed, self.lost = set[tuple[str, str]](), list[str]()
        self._wrapped = ExitStack()

    def watch(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        if self._look not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._look)
            self._wrapped.callback(connection.execute_wrappers.remove, self._look)

    def end(self) -> None:
        self._wrapped.close()

    def _look(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        for table, columns in CHANGES.findall(sql):
            self.changed |= {(table, name) for name in re.findall(r'"(\w+)" = ', columns)}
        self.lost += LOSES.findall(sql)
        return execute(sql, params, many, context)


@pytest.fixture
def written() -> Iterator[Written]:
    found = Written()
    found.watch(connections["default"])
    connection_created.connect(found.watch)
    yield found
    connection_created.disconnect(found.watch)
    found.end()


def a_whole_life(sandbox: SandboxClient, ann: User, in_thread: InThread) -> Run:
    """Sent, refused, doubled, stopped, cancelled, looked up, undone, settled by hand, answered late."""
    run = begin("Life", owner=ann)
    assert run.call(UPLOAD, words("file"), connector="sandbox", key="file").accepted
    sandbox.hold("working", "job")
    called = in_thread(run.call, REPORT, words("job", refuse_cancel=True), connector="sandbox", key="job")
    sandbox.wait("working", "job")
    with run.dispatch("write", connector="tools", key="lost") as op:
        op.progress(0.5)
        stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    for _ in range(3):
        assert run.call(NOTIFY, words("late"), connector="sandbox", key="late").ignored
    reconcile.work()
    sandbox.release("working", "job")
    sandbox.settled("job")
    let_pass(run.task_id, 60)
    reconcile.work()
    lost = Operation.objects.get(key="lost")
    settle_by_hand(lost.pk, by=ann, outcome="failed", reason="it is not there")
    op.succeeded("late")
    assert compensate(Operation.objects.get(key="file").pk, by=ann).future.result(HANG_GUARD).state == "succeeded"
    return run


def test_facts_are_added_and_nothing_else(
    sandbox: SandboxClient, settings: Settings, ann: User, in_thread: InThread, written: Written
) -> None:
    """R36. But for the lease that gets longer and the count of a repeated refusal."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    written.watch(connections["default"])
    run = a_whole_life(sandbox, ann, in_thread)
    moved = {("attempt", "passed_at"), ("decision", "at"), ("decision", "until")}  # by the tests' own passing of time
    moved |= {("receipt", "asked_at"), ("receipt", "seen_at"), ("receipt", "provider_at"), ("call", "at")}
    moved |= {("call", "admitted_at")}
    assert written.changed - moved <= ONE_WAY and ("decision", "count") in written.changed
    assert written.lost == []
    kinds: list[type[Model]] = [Decision, Attempt, Receipt, Call]
    assert all(kind._default_manager.exists() for kind in kinds)
    with pytest.raises(ProtectedError):
        Task.objects.get(pk=run.task_id).delete()


def test_a_fact_that_is_changed_would_be_seen(tools: None, written: Written) -> None:
    with begin("Write").dispatch("write", connector="tools", key="k") as op:
        op.failed("no")
    Receipt.objects.update(claim="succeeded")
    Receipt.objects.all().delete()
    assert written.changed == {("receipt", "claim")} and "receipt" in written.lost
