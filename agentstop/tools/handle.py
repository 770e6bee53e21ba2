"""The operation that a tool is being called for."""

from __future__ import annotations

from contextvars import ContextVar

from agentstop.dispatched import Dispatched

current_operation: ContextVar[Dispatched | None] = ContextVar("agentstop_operation", default=None)
