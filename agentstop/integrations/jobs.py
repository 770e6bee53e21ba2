"""What the job of any queue is to the run that it works for: one operation, or an agent that ends its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentstop.exceptions import (
    Finished,
    Frozen,
    InFlight,
    PassExpired,
    Paused,
    Refused,
    Stale,
    Stopped,
    Superseded,
    Unanswered,
)
from agentstop.inline import SaysUnsent, call_here
from agentstop.outcomes import Classify
from agentstop.request import Request
from agentstop.runs import Run
from agentstop.tools.asked import value_of
from agentstop.tools.handle import current_operation

REFUSALS = (Refused, Stale, PassExpired)  # what ends a job without being a failure of it
COMES_BACK = (Paused, Frozen, Unanswered, InFlight, PassExpired)  # of these, what does so for a while


def as_operation(
    request: Request, function: Callable[[], Any], classify: Classify, says_unsent: SaysUnsent = lambda _: False
) -> Any:
    """What the function returns, sent as one operation in this very thread, or what was kept of it when it was done."""

    def body(op: Any) -> Any:
        token = current_operation.set(op)
        try:
            return function()
        finally:
            current_operation.reset(token)

    return value_of(call_here(request, body, classify=classify, wait=False, says_unsent=says_unsent), None)


def refused(run: Run, refusal: Exception) -> None:
    """The agent of a run goes no further: it has taken notice that the run is over, else the run has failed by it."""
    if isinstance(refusal, COMES_BACK):
        return
    try:
        run.check()
    except (Stopped, Superseded, Finished):
        run.halted()
    except Refused:  # it is held: what became of its agent is seen when it goes on
        pass
    else:
        run.fail(f"{type(refusal).__name__}: {refusal}")
