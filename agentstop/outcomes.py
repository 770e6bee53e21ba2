"""What a call gives back, and how a tool's returned value is judged: a returned value is not yet a success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentstop.exceptions import Refused
from agentstop.models.facts import CallOutcome


class Verdict(StrEnum):
    """What a returned value says about the effect."""

    SUCCEEDED = "succeeded"
    UNUSABLE = "unusable"  # the effect is there, and the value cannot go into the context
    FAILED = "failed"  # the provider said that there is no effect
    LOST = "lost"  # the value proves nothing


Classify = Callable[[Any], Verdict]


def any_value(_: Any) -> Verdict:
    """Every returned value is a success: for tools that raise when something is wrong."""
    return Verdict.SUCCEEDED


def text_only(value: Any) -> Verdict:
    """Only a text is usable."""
    return Verdict.SUCCEEDED if isinstance(value, str) else Verdict.UNUSABLE


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run got for its request.

    `accepted`: `result` was admitted. `ignored`: the run is over; whatever comes is kept as a receipt, not admitted.
    `failed`: there is no usable result, and `error` says why; the operation's own state tells what is known of the
    effect. `refusal` is set where nothing was sent.
    """

    outcome: CallOutcome
    operation: int | None = None
    result: Any = None
    error: str = ""
    refusal: Refused | None = None

    @property
    def accepted(self) -> bool:
        return self.outcome is CallOutcome.ACCEPTED

    @property
    def ignored(self) -> bool:
        return self.outcome is CallOutcome.IGNORED

    @property
    def failed(self) -> bool:
        return self.outcome is CallOutcome.FAILED
