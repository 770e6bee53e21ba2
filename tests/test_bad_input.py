"""Bad input: a clear error for the caller, nothing lost, nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.handlers.base import BaseHandler
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory, TestCase, override_settings
from pytest_django.fixtures import Settings

from agentstop import reconcile
from agentstop.dispatched import Dispatched
from agentstop.exceptions import (
    ConnectorNotConfigured,
    GateInTransaction,
    KeyReused,
    Stale,
    TaskNotFound,
)
from agentstop.models import Attempt, Call, Decision, Operation, Receipt, Task
from agentstop.models import Run as RunRow
from agentstop.outcomes import Verdict
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.observed import claims, of_key, task_of
from tests.tools import Counting

MEGABYTE = 1_000_000


@pytest.fixture
def run(tools: None, transactional_db: None) -> Run:
    return begin("a task")


def write(run: Run, tool: Any, key: str = "k", **options: Any) -> Any:
    return run.call("write", options.pop("args", {}), connector="tools", key=key, send=tool, **options)


def rows() -> dict[str, int]:
    tables = (Task, RunRow, Operation, Attempt, Receipt, Call, Decision)
    return {table.__name__: table.objects.count() for table in tables}


class TestInsideATransaction:
    """A rollback of the caller's could undo the record of what was sent (R8)."""

    @pytest.mark.parametrize(
        "use",
        [
            lambda run: begin("another"),
            lambda run: begin(task_of(run)),
            lambda run: write(run, Counting()),
            lambda run: run.prepare("write", connector="tools", key="k"),
            lambda run: run.dispatch("write", connector="tools", key="k").__enter__(),
            lambda run: stop(run.task_id),
            lambda run: run.finish(),
            lambda run: run.halted(),
        ],
        ids=["begin", "begin again", "call", "prepare", "dispatch", "stop", "finish", "halted"],
    )
    def test_everything_that_must_last_is_refused(self, run: Run, use: Callable[[Run], object]) -> None:
        before = rows()
        with pytest.raises(GateInTransaction, match=r"outside transaction.atomic"), transaction.atomic():
            use(run)
        assert rows() == before

    def test_with_autocommit_off_as_well(self, run: Run) -> None:
        transaction.set_autocommit(False)
        try:
            with pytest.raises(GateInTransaction):
                stop(run.task_id)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)

    def test_a_view_with_atomic_requests_has_to_say_that_it_is_none(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def view(request: HttpRequest) -> HttpResponse:
            stop(run.task_id)
            return HttpResponse()

        def visit(view: Callable[[HttpRequest], HttpResponse]) -> HttpResponseBase:
            monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
            return BaseHandler().make_view_atomic(view)(RequestFactory().get("/"))

        with pytest.raises(GateInTransaction, match="non_atomic_requests"):
            visit(view)
        assert task_of(run).state == "active"
        assert visit(transaction.non_atomic_requests(view)).status_code == 200
        assert task_of(run).state == "stopped"


@override_settings(AGENTSTOP_CONNECTORS={"tools": {}})
class InDjangosTestCase(TestCase):
    """The transaction around each of its tests is no caller's."""

    def test_it_works_where_no_other_thread_has_to_see_it(self) -> None:
        run = begin("a task")
        with run.dispatch("write", connector="tools", key="k") as op:
            op.succeeded("done")
        assert run.context() == ["done"]
        assert stop(run.task_id).stopped
        with pytest.raises(Stale), run.admitting(op.id):
            raise AssertionError("the body was entered")

    def test_what_sends_on_other_threads_says_so_and_sends_nothing(self) -> None:
        run, tool = begin("a task"), Counting()
        with pytest.raises(GateInTransaction, match="TransactionTestCase"):
            write(run, tool)
        assert tool.writes == 0
        assert not Operation.objects.exists()

    def test_an_atomic_block_of_ones_own_is_still_refused(self) -> None:
        run = begin("a task")
        with pytest.raises(GateInTransaction), transaction.atomic():
            stop(run.task_id)


class TestKeys:
    def test_another_effect_under_a_used_key_is_refused_and_counted(self, run: Run) -> None:
        """R9."""
        tool = Counting("done")
        assert write(run, tool, args={"to": "ann"}).accepted
        for _ in range(3):
            with pytest.raises(KeyReused, match="other identifying arguments"):
                write(run, tool, args={"to": "ben"})
        assert tool.writes == 1
        assert Decision.objects.get(verb="refuse").count == 3
        assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED

    def test_what_does_not_identify_may_be_worded_anew(self, run: Run) -> None:
        """R9."""
        tool = Counting("done")
        assert write(run, tool, args={"to": "ann", "text": "hello"}, identify=["to"]).accepted
        again = write(run, tool, args={"to": "ann", "text": "good day"}, identify=["to"])
        assert again.accepted and again.result == "done"
        assert tool.writes == 1
        with pytest.raises(KeyReused):
            write(run, tool, args={"to": "ben", "text": "hello"}, identify=["to"])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"key": ""}, "Pass key="),
            ({"key": " "}, "not empty"),
            ({"key": "a\x00b"}, "NUL"),
            ({"key": "a\ud800b"}, "broken character"),
            ({"key": "k" * 256}, "256 characters"),
            ({"action": ""}, "action must be"),
            ({"action": "a\x00"}, "NUL"),
            ({"identify": ["to"]}, "identify names arguments that are not there: to"),
            ({"deadline": 0}, "above 0"),
            ({"deadline": -1}, "above 0"),
            ({"deadline": float("nan")}, "above 0"),
            ({"deadline": float("inf")}, "at most"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_unusable_names_and_limits_are_named(self, run: Run, options: dict[str, Any], words: str) -> None:
        before = rows()
        wish = {"action": "write", "args": {}, "connector": "tools", "key": "k", "send": Counting(), **options}
        with pytest.raises(ValueError, match=words):
            run.call(wish.pop("action"), wish.pop("args"), **wish)
        assert rows() == before


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
NASTY: dict[str, Any] = {
    "NUL": "a\x00b",
    "lone surrogates": "\ud800 \udfff",
    "bytes that are no UTF-8": b"\xff\xfe\x00",
    "nested": {"a\x00": ["\ud800", {"b": float("nan")}]},
    "no JSON": {1, 2},
    "a number without end": 10**5000,
    "a circle": CIRCLE,
    "deep": json.loads("[" * 900 + "]" * 900),
}


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class TestResults:
    @pytest.mark.parametrize("value", [*NASTY.values(), Unprintable()], ids=[*NASTY, "unprintable"])
    def test_whatever_a_tool_returns_is_stored_and_admitted(self, run: Run, value: Any) -> None:
        assert write(run, Counting(value)).accepted
        assert len(run.context()) == 1
        assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED

    @pytest.mark.parametrize("value", ["x" * 50 * MEGABYTE, {"x": ["é" * 25 * MEGABYTE]}], ids=["a text", "an object"])
    def test_a_result_over_the_cap_fails_the_call_and_not_the_effect(self, run: Run, value: Any) -> None:
        """R19."""
        outcome = write(run, Counting(value))
        assert outcome.failed and "AGENTSTOP_RESULT_CAP" in outcome.error
        receipt = Receipt.objects.get()
        assert (receipt.claim, receipt.cut) == ("succeeded", True)
        assert receipt.size >= 50 * MEGABYTE > MEGABYTE >= len(receipt.body.encode())
        assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED
        assert run.context() == []

    @pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 5 * MEGABYTE], ids=["NUL", "surrogate", "long"])
    def test_whatever_an_error_says_is_stored(self, run: Run, text: str) -> None:
        def fails(op: Dispatched) -> None:
            raise OSError(text)

        assert write(run, fails).failed
        assert of_key(run.task_id, "k").state is OperationState.UNKNOWN
        assert claims(Operation.objects.get().pk) == [("lost", "sender")]

    def test_nasty_arguments_reach_the_tool_and_are_told_safely(self, run: Run) -> None:
        """R8."""
        args = {"text": "a\x00\ud800", "password": "secret", "bytes": b"\xff"}
        assert write(run, Counting("done"), args=args).accepted
        summary = Operation.objects.get().summary
        assert "secret" not in summary and "\x00" not in summary

    @pytest.mark.parametrize("raised", [ValueError("no idea"), SystemExit(1), KeyboardInterrupt()])
    def test_a_classifier_that_raises_costs_no_receipt(self, run: Run, raised: BaseException) -> None:
        def classify(value: Any) -> Verdict:
            raise raised

        outcome = write(run, Counting("done"), classify=classify)
        assert outcome.failed and "could not be classified" in outcome.error
        assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED
        assert run.context() == []

    @pytest.mark.parametrize("verdict", [None, True, False, "fine"])
    def test_a_classifier_that_gives_no_verdict_admits_nothing(self, run: Run, verdict: Any) -> None:
        """R19."""
        outcome = write(run, Counting("done"), classify=lambda value: verdict)
        assert outcome.failed and "could not be classified" in outcome.error
        assert run.context() == []


class TestWhatIsNotThere:
    @pytest.mark.parametrize("task", [0, -1, 10**9, 10**30])
    def test_an_unknown_task_cannot_be_stopped(self, transactional_db: None, task: int) -> None:
        with pytest.raises(TaskNotFound, match="Nothing was stopped"):
            stop(task)
        assert not Decision.objects.exists()

    def test_a_run_of_an_unknown_task_sends_nothing(self, run: Run) -> None:
        tool, gone = Counting(), Run(10**9, 1)
        before = rows()
        for use in (lambda: write(gone, tool), gone.check, gone.finish, gone.halted):
            with pytest.raises(TaskNotFound):
                use()
        with pytest.raises(TaskNotFound):
            begin(Task(pk=10**9))
        assert (tool.writes, rows()) == (0, before)

    def test_an_unknown_connector_is_named_before_anything_is_written(self, run: Run) -> None:
        before = rows()
        with pytest.raises(ConnectorNotConfigured, match=r"'fax'.*known: 'tools'"):
            run.call("write", {}, connector="fax", key="k")
        assert rows() == before

    def test_a_connector_that_is_gone_leaves_stop_and_report_working(
        self, transactional_db: None, sandbox: SandboxClient, settings: Settings, in_thread: InThread
    ) -> None:
        run = begin("a task")
        sandbox.hold("working")
        caller = in_thread(run.call, "report.create", {"label": "a"}, connector="sandbox", key="k")
        sandbox.wait("working")
        settings.AGENTSTOP_CONNECTORS = {}
        assert stop(run.task_id).stopped
        assert caller.result(HANG_GUARD).ignored
        reconcile.work()
        assert of_key(run.task_id, "k").label == "still_active"
