"""What Anthropic's SDK needs besides a gated client: it takes every error for one of the connection, and tries again.

`anthropic.Anthropic(http_client=httpx2.Client(transport=GatedTransport("model")), middleware=[as_they_are])`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentstop.exceptions import AgentStopError


def as_they_are(request: Any, call_next: Callable[[Any], Any]) -> Any:
    """A middleware of the SDK: what the gate refuses is raised as it is, and never tried again."""
    try:
        return call_next(request)
    except Exception as error:
        _raise_refusal(error)
        raise


async def aas_they_are(request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """As `as_they_are`, for `anthropic.AsyncAnthropic`."""
    try:
        return await call_next(request)
    except Exception as error:
        _raise_refusal(error)
        raise


def _raise_refusal(error: Exception) -> None:
    """Raise what the gate said and the SDK has wrapped; with the SDK's error in its chain it would be retried."""
    refusal = error.__cause__
    if isinstance(refusal, AgentStopError):
        raise refusal from refusal.__cause__
