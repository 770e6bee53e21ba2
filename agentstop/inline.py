"""A gated call whose tool runs in the caller's own thread: for code that belongs there, as the body of a job does."""

from __future__ import annotations

from collections.abc import Callable

from agentstop import asking, calls, telemetry
from agentstop.carry import NOT_DONE_YET, Tool, about, answer_of, judged, replayed
from agentstop.dispatched import Dispatched
from agentstop.exceptions import PassExpired
from agentstop.gate import open_gate
from agentstop.heartbeat import kept_alive
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Classify, Outcome, any_value
from agentstop.passes import Pass
from agentstop.providers.base import Answer
from agentstop.request import Request
from agentstop.sending import sender
from agentstop.settle import Admission
from agentstop.states import SIGNS_OF_LIFE
from agentstop.stop_signal import held

SaysUnsent = Callable[[BaseException], bool]


def call_here(
    request: Request,
    tool: Tool,
    *,
    classify: Classify = any_value,
    wait: bool = True,
    says_unsent: SaysUnsent = lambda _: False,
) -> Outcome:
    """As `calls.call`, but the caller is free only when the tool is: nobody can end its own thread's work.

    What the tool raises is recorded and raised. Where `says_unsent` takes an error for the tool's word that it has sent
    nothing, that is what is recorded; else that nothing is known. Refusals are raised, of a run that is over too.
    """
    calls.require_thread(request)
    with (
        held(request.task, request.run) as signal,
        telemetry.span(telemetry.Span.CALL, calls.about(request), over=signal.is_set) as span,
    ):
        passed = calls.entered(request, lambda: open_gate(request, signal), wait=wait)
        if not isinstance(passed, Pass):
            return calls.told(span, replayed(passed.operation, request.run))
        handle = Dispatched(passed, signal)
        with telemetry.span(telemetry.Span.ATTEMPT, about(passed), over=signal.is_set) as attempt:
            with kept_alive(passed):
                answer, error = judged(_tried(tool, handle, says_unsent), classify)
            telemetry.answered(attempt, answer.claim, over=signal.is_set())
            return calls.told(span, _kept(passed, answer, error))


def _tried(tool: Tool, handle: Dispatched, says_unsent: SaysUnsent) -> Answer:
    try:
        handle.require()
        return answer_of(tool(handle), handle)
    except BaseException as error:
        if not handle.heard:
            unsent = error.unsent if isinstance(error, PassExpired) else says_unsent(error) and not handle.let_through
            (handle.unsent if unsent else handle.lost)(asking.describe(error))
        raise


def _kept(passed: Pass, answer: Answer, error: str) -> Outcome:
    """The answer is stored, tried again for a while where the database fails: it may be the only proof."""
    evidence = asking.heard(answer, passed.passed_at, attempt_id=passed.attempt_id, answered_at=passed.now)
    going_on = answer.claim in SIGNS_OF_LIFE
    admission = None if going_on else Admission(passed.request.run, error)
    settled = sender().start(lambda: asking.keep(passed.operation, [evidence], admission=admission)).result()
    if going_on:
        return Outcome(CallOutcome.FAILED, passed.operation, error=NOT_DONE_YET)
    accepted = settled.outcome is CallOutcome.ACCEPTED
    result = answer.result if accepted else None
    return Outcome(settled.outcome or CallOutcome.FAILED, passed.operation, result, settled.error)
