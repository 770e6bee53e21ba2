"""A provider whose code is wrong: it gives back, or raises, whatever the options say."""

from __future__ import annotations

from typing import Any

from agentstop.providers.base import Cancel, CancelReply, Capability, Context, LookUp, Provider, Submission


class Nonsense(Provider):
    def __init__(self, *, submitted: Any = None, looked_up: Any = None, cancelled: Any = None) -> None:
        self.submitted, self.looked_up, self.cancelled = submitted, looked_up, cancelled

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_KEY, cancel=Cancel.BEST_EFFORT, cancel_needs_ref=False)

    async def submit(self, submission: Submission, context: Context) -> Any:
        return _given(self.submitted)

    async def look_up(self, submission: Submission, *, deadline: float) -> Any:
        return _given(self.looked_up)

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        reply: CancelReply = _given(self.cancelled)
        return reply


def _given(value: Any) -> Any:
    if isinstance(value, BaseException):
        raise value
    return value


def nonsense(**given: Any) -> dict[str, Any]:
    """An entry of `AGENTSTOP_CONNECTORS`."""
    return {"PROVIDER": "tests.nonsense.Nonsense", "OPTIONS": given}
