"""Metrics and spans by OpenTelemetry's API, where it is installed; without it nothing happens, and nothing slows.

Which SDK and exporter there are is the host's choice. What is told are counts, times, names of connectors and actions,
and numbers of rows: never keys, arguments, results or people. A person's stop is never told as a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from agentstop import __version__
from agentstop.exceptions import AgentStopError
from agentstop.states import Claim

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # agentstop[telemetry] is not installed
    INSTALLED = False
else:
    INSTALLED = True


class Metric(StrEnum):
    """What is counted and measured; the last four are read from the database, and say the same in every process."""

    GATE_PASSES = "agentstop.gate.passes"
    GATE_REFUSALS = "agentstop.gate.refusals"
    PRESS_TO_LAST_DISPATCH = "agentstop.stop.press_to_last_dispatch"
    OPEN = "agentstop.operations.open"
    UNKNOWN = "agentstop.operations.unknown"
    OLDEST_UNKNOWN = "agentstop.operations.oldest_unknown"
    DUE = "agentstop.follow_ups.due"


class Span(StrEnum):
    """What is traced."""

    CALL = "agentstop.call"
    ATTEMPT = "agentstop.attempt"
    RECEIPT = "agentstop.receipt"


class Attribute(StrEnum):
    """What is told of them."""

    TASK = "agentstop.task"
    RUN = "agentstop.run"
    OPERATION = "agentstop.operation"
    CONNECTOR = "agentstop.connector"
    ACTION = "agentstop.action"
    ATTEMPT = "agentstop.attempt"
    CLAIM = "agentstop.claim"
    SOURCE = "agentstop.source"
    STATE = "agentstop.state"
    OUTCOME = "agentstop.outcome"
    REASON = "agentstop.reason"
    ERROR = "error.type"


UNITS = {
    Metric.GATE_PASSES: "{pass}",
    Metric.GATE_REFUSALS: "{refusal}",
    Metric.PRESS_TO_LAST_DISPATCH: "s",
    Metric.OPEN: "{operation}",
    Metric.UNKNOWN: "{operation}",
    Metric.OLDEST_UNKNOWN: "s",
    Metric.DUE: "{operation}",
}
BUCKETS = (0.0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WENT_WRONG = frozenset({Claim.FAILED, Claim.REFUSED, Claim.LOST})


class Instruments:
    """The tracer and the instruments: of the providers that are given, else of those that the host has set or sets."""

    def __init__(self, tracers: Any = None, meters: Any = None) -> None:
        self.tracer = trace.get_tracer("agentstop", __version__, tracers)
        self.meter = metrics.get_meter("agentstop", __version__, meters)
        self.passes = self.meter.create_counter(Metric.GATE_PASSES, UNITS[Metric.GATE_PASSES])
        self.refusals = self.meter.create_counter(Metric.GATE_REFUSALS, UNITS[Metric.GATE_REFUSALS])
        self.pressed = self.meter.create_histogram(
            Metric.PRESS_TO_LAST_DISPATCH,
            UNITS[Metric.PRESS_TO_LAST_DISPATCH],
            explicit_bucket_boundaries_advisory=BUCKETS,
        )


instruments: Instruments | None = Instruments() if INSTALLED else None


def passed(connector: str, action: str) -> None:
    """The gate has let an operation leave."""
    if instruments is not None:
        about: dict[str, str] = {Attribute.CONNECTOR: connector, Attribute.ACTION: action}
        instruments.passes.add(1, about)


def refused(connector: str, action: str, reason: str) -> None:
    """The gate has let nothing leave, for this reason."""
    if instruments is not None:
        about: dict[str, str] = {
            Attribute.CONNECTOR: connector,
            Attribute.ACTION: action,
            Attribute.REASON: reason,
        }
        instruments.refusals.add(1, about)


def pressed(seconds: float) -> None:
    """A task was stopped, and so many seconds after the press it was last let dispatch; 0 where not after it."""
    if instruments is not None:
        instruments.pressed.record(max(0.0, seconds))


def observation(value: float) -> Any:
    """One reading of a gauge."""
    return metrics.Observation(value)


class Nothing:
    """Stands for a span where none is told of."""

    def is_recording(self) -> bool:
        return False

    def set_attribute(self, name: str, value: Any) -> None: ...


NOTHING = Nothing()


@contextmanager
def span(name: Span, about: Mapping[str, Any], *, over: Callable[[], bool] = bool) -> Iterator[Any]:
    """A span around the block. An error is told by its type alone; a refusal, or what ends once it is `over`, is none.

    `over`: whether the run has ended meanwhile, so that what is raised may come of that.
    """
    if instruments is None:
        yield NOTHING
        return
    kind = trace.SpanKind.CLIENT if name is Span.ATTEMPT else trace.SpanKind.INTERNAL
    with instruments.tracer.start_as_current_span(
        name, kind=kind, attributes=dict(about), record_exception=False, set_status_on_exception=False
    ) as found:
        try:
            yield found
        except AgentStopError as error:
            found.set_attribute(Attribute.REASON, getattr(error, "reason", type(error).__name__))
            raise
        except Exception as error:
            found.set_attribute(Attribute.ERROR, type(error).__qualname__)
            if not over():
                _fails(found)
            raise


def _fails(found: Any) -> None:
    found.set_status(trace.Status(trace.StatusCode.ERROR))


def answered(found: Any, claim: Claim, *, over: bool) -> None:
    """What came of an attempt; once its run is over, a lost or failed answer may come of that, and is no failure."""
    if found.is_recording():
        found.set_attribute(Attribute.CLAIM, str(claim))
        if claim in WENT_WRONG and not over:
            _fails(found)


def ended(found: Any, outcome: str, operation: int | None, *, failed: bool) -> None:
    """What the caller got."""
    if found.is_recording():
        found.set_attribute(Attribute.OUTCOME, outcome)
        if operation is not None:
            found.set_attribute(Attribute.OPERATION, operation)
        if failed:
            _fails(found)


def traceparent() -> str:
    """The span that goes on here, as W3C writes it: kept on the attempt, for receipts that come to other processes."""
    carrier: dict[str, str] = {}
    if instruments is not None:
        TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


def link(found: Any, parent: str) -> None:
    """Link a span to the one that `traceparent` has told of."""
    context = TraceContextTextMapPropagator().extract({"traceparent": parent})
    found.add_link(trace.get_current_span(context).get_span_context())
