"""What OpenTelemetry is told: passes, refusals, what stands open, and spans that are linked; a stop is no failure."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentstop import database, gauges, telemetry
from agentstop.models import Attempt, Operation
from agentstop.providers.base import Answer
from agentstop.runs import abegin, begin
from agentstop.settle import Heard, record
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.telemetry import UNITS, Attribute, Instruments, Metric, Span
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.demo_process import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


class Told:
    """What a host's collector would be told."""

    def __init__(self, spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self.exporter = spans
        self.reader = reader

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: Span) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == name]

    def points(self, metric: Metric) -> list[Any]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        found = [each for scope in scopes for each in scope.metrics if each.name == metric]
        assert all(each.unit == UNITS[metric] for each in found)
        return [point for each in found for point in each.data.data_points]

    def value(self, metric: Metric) -> float:
        [point] = self.points(metric)
        return float(point.value)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    instruments = Instruments(tracers, meters)
    monkeypatch.setattr(telemetry, "instruments", instruments)
    gauges.register(instruments)
    yield Told(exporter, reader)
    tracers.shutdown()
    meters.shutdown()


def lost(_: object) -> None:
    raise OSError("reset by peer")


def kept(reading: Any) -> dict[str, Any]:
    return dict(reading.attributes)


def test_passes_and_refusals_are_counted_with_the_reason(told: Told) -> None:
    run = begin("Report")
    run.call("chat.post", connector="tools", key="a", send=lambda op: "fine")
    stop(run.task_id)
    assert run.call("chat.post", connector="tools", key="b", send=lambda op: "fine").outcome == "ignored"
    about = {"agentstop.connector": "tools", "agentstop.action": "chat.post"}
    [passes], [refusals] = told.points(Metric.GATE_PASSES), told.points(Metric.GATE_REFUSALS)
    assert (passes.value, kept(passes)) == (1, about)
    assert (refusals.value, kept(refusals)) == (1, {**about, "agentstop.reason": "stopped"})


def test_what_stands_open_is_read_when_it_is_asked_for(told: Told) -> None:
    assert [told.value(metric) for metric in gauges.READ] == [0, 0, 0, 0]
    run = begin("Report")
    run.call("chat.post", connector="tools", key="a", send=lost)
    an_hour_ago = database.now() - timedelta(hours=1)
    Operation.objects.update(state_since=an_hour_ago, follow_up_at=an_hour_ago)
    assert [told.value(metric) for metric in (Metric.OPEN, Metric.UNKNOWN, Metric.DUE)] == [1, 1, 1]
    assert 3600 <= told.value(Metric.OLDEST_UNKNOWN) < 3600 + HANG_GUARD


def test_a_database_that_is_away_is_no_reading_and_no_error(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> float:
        raise OSError("gone")

    monkeypatch.setattr(gauges.boards, "standing", lambda board: away())  # type: ignore[attr-defined]
    assert told.points(Metric.OLDEST_UNKNOWN) == []
    assert told.value(Metric.UNKNOWN) == 0


def test_what_nobody_waits_for_any_more_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that hangs is asked once, not once for each export meanwhile."""
    begun, go_on, read = threading.Event(), threading.Event(), []

    def hang() -> float:
        read.append(1)
        begun.set()
        return float(go_on.wait(HANG_GUARD))

    slow = gauges._pool().submit(hang)
    assert begun.wait(HANG_GUARD)
    monkeypatch.setattr(gauges, "PATIENCE", 0.01)
    assert [list(gauges._callback(Metric.DUE, hang)(None)) for _ in range(3)] == [[], [], []]
    go_on.set()
    assert slow.result(HANG_GUARD) == 1.0
    assert gauges._pool().submit(lambda: len(read)).result(HANG_GUARD) == 1


def test_the_time_from_press_to_last_dispatch_is_measured_for_the_press_that_stops(told: Told) -> None:
    run = begin("Report")
    run.call("chat.post", connector="tools", key="a", send=lambda op: "fine")
    stop(run.task_id)
    stop(run.task_id)
    stop(begin("Nothing was sent").task_id)
    [measured] = told.points(Metric.PRESS_TO_LAST_DISPATCH)
    assert (measured.count, measured.sum) == (1, 0.0)


def test_call_attempt_and_receipt_are_one_trace(told: Told) -> None:
    run = begin("Report")
    outcome = run.call("chat.post", connector="tools", key="a", send=lambda op: "fine")
    [call], [attempt], [receipt] = (told.named(name) for name in Span)
    assert call.parent is None
    assert attempt.parent is not None
    assert receipt.parent is not None
    assert attempt.parent.span_id == call.context.span_id
    assert receipt.parent.span_id == attempt.context.span_id
    assert call.attributes is not None
    assert call.attributes["agentstop.operation"] == outcome.operation
    assert call.attributes["agentstop.outcome"] == "accepted"


@pytest.mark.asyncio
async def test_of_a_coroutine_too(told: Told) -> None:
    run = await abegin("Report")
    await run.acall("chat.post", connector="tools", key="a", send=lambda op: "fine")
    [call], [attempt], [receipt] = (told.named(name) for name in Span)
    assert {each.context.trace_id for each in (attempt, receipt)} == {call.context.trace_id}


def test_a_receipt_that_comes_later_elsewhere_is_linked_to_the_call(told: Told) -> None:
    run = begin("Report")
    outcome = run.call("chat.post", connector="tools", key="a", send=lost)
    told.exporter.clear()
    record(outcome.operation or 0, [Heard(Claim.SUCCEEDED, Source.PROVIDER, database.now())])
    [receipt] = told.spans
    [link] = receipt.links
    _, trace_id, span_id, _ = Attempt.objects.get().trace.split("-")
    assert receipt.parent is None
    assert (f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") == (trace_id, span_id)
    assert receipt.attributes is not None
    assert receipt.attributes["agentstop.state"] == "succeeded"


def stopped_while_sending(in_thread: InThread) -> None:
    """A person stops the task while its tool works, and the tool ends for that by an error."""
    run, sending = begin("Report"), threading.Event()

    def tool(op: Any) -> None:
        sending.set()
        assert op.stop_signal.wait(HANG_GUARD)
        raise ConnectionAbortedError("stopped")

    calling = in_thread(run.call, "chat.post", connector="tools", key="a", send=tool)
    assert sending.wait(HANG_GUARD)
    stop(run.task_id)
    assert calling.result(HANG_GUARD).outcome == "ignored"


def failures(told: Told) -> list[str]:
    return [each.name for each in told.spans if not each.status.is_unset]


def the_attempt(told: Told) -> ReadableSpan:
    """The span of the one attempt, which outlives its call."""
    eventually(lambda: len(told.named(Span.ATTEMPT)), 1)
    [attempt] = told.named(Span.ATTEMPT)
    return attempt


def test_a_persons_stop_is_no_failure(told: Told, in_thread: InThread) -> None:
    stopped_while_sending(in_thread)
    attempt = the_attempt(told)
    assert attempt.attributes is not None
    assert attempt.attributes["agentstop.claim"] == "lost"
    assert failures(told) == []


def test_it_would_be_one_if_nobody_asked_whether_the_run_is_over(
    told: Told, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = telemetry.answered
    monkeypatch.setattr(telemetry, "answered", lambda span, claim, over: answered(span, claim, over=False))
    stopped_while_sending(in_thread)
    assert not the_attempt(told).status.is_unset


def test_a_lost_answer_and_a_failure_are_failures(told: Told) -> None:
    run = begin("Report")
    run.call("chat.post", connector="tools", key="a", send=lost)
    assert failures(told) == [Span.ATTEMPT, Span.CALL]
    told.exporter.clear()
    run.call("chat.post", connector="tools", key="b", send=lambda op: Answer(Claim.FAILED))
    assert failures(told) == [Span.ATTEMPT, Span.CALL]


def test_neither_keys_nor_what_is_said_leaves(told: Told) -> None:
    run = begin("SECRET title")
    run.call("chat.post", {"text": "SECRET"}, connector="tools", key="SECRET", send=lambda op: "SECRET")
    with pytest.raises(OSError, match="SECRET"), run.dispatch("chat.post", connector="tools", key="SECRET 2"):
        raise OSError("SECRET")
    stop(run.task_id, reason="SECRET")
    run.call("chat.post", connector="tools", key="SECRET 3", send=lost)
    known = {str(each) for each in Attribute}
    for span in told.spans:
        assert set(span.attributes or {}) <= known
        assert "SECRET" not in span.to_json()
    data = told.reader.get_metrics_data()
    assert data is not None
    assert "SECRET" not in data.to_json()


def test_without_the_package_all_works_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "instruments", None)
    run = begin("Report")
    assert run.call("chat.post", connector="tools", key="a", send=lambda op: "fine").result == "fine"
    stop(run.task_id)
    assert Attempt.objects.get().trace == ""


ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import django
django.setup()
from agentstop import telemetry
assert not telemetry.INSTALLED and not [name for name in sys.modules if name.startswith("opentelemetry")]
with telemetry.span(telemetry.Span.CALL, {}) as span:
    telemetry.passed("a", "b"); telemetry.refused("a", "b", "stopped"); telemetry.pressed(1.0)
    telemetry.ended(span, "failed", 1, failed=True)
assert telemetry.traceparent() == ""
print("fine")
"""
LATER = """
import django
django.setup()
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
trace.set_tracer_provider(TracerProvider())
from agentstop import telemetry
telemetry.passed("a", "b")
with telemetry.span(telemetry.Span.CALL, {}) as span:
    assert span.is_recording() and telemetry.traceparent()
names = {m.name for r in reader.get_metrics_data().resource_metrics for s in r.scope_metrics for m in s.metrics}
assert telemetry.Metric.GATE_PASSES in names, names
print("fine")
"""


FORKED = """
import os
import django
django.setup()
from agentstop import gauges
ask = gauges._callback(gauges.Metric.DUE, lambda: 7.0)
assert [each.value for each in ask(None)] == [7.0]
child = os.fork()
if child == 0:
    os._exit(0 if [each.value for each in ask(None)] == [7.0] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("fine")
"""
PROGRAMS = ["the package is absent", "the host sets its SDK later", "a server forks once it has loaded the application"]


@pytest.mark.parametrize("program", [ABSENT, LATER, FORKED], ids=PROGRAMS)
def test_in_a_process_of_its_own(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=HANG_GUARD, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_the_documents_name_all_of_it_and_nothing_else() -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text()
    rows = re.findall(r"^\| `([a-z._]+)` \| (?:`([^`]*)`)?", page, re.MULTILINE)
    units = {name: unit for name, unit in rows if unit}
    assert units == {str(metric): UNITS[metric] for metric in Metric}
    others = [name for name, unit in rows if not unit]
    assert sorted(others) == sorted([*map(str, Span), *map(str, Attribute)])
