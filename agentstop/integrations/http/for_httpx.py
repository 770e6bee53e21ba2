"""Gated transports for clients of httpx: `httpx.Client(transport=GatedTransport("stripe"))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from agentstop.integrations.http.transport import AsyncGated, Gated


class GatedTransport(Gated, httpx.BaseTransport):
    """For `httpx.Client`: each write is an operation of the connector, through the gate, below every retry.

    `inner` sends (default: a new `httpx.HTTPTransport`). See `through` for whom.
    """

    def __init__(self, connector: str, inner: httpx.BaseTransport | None = None, **options: Any) -> None:
        super().__init__(connector, inner or httpx.HTTPTransport(), **options)


class AsyncGatedTransport(AsyncGated, httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient`; `make` makes what sends, one for each event loop."""

    def __init__(
        self, connector: str, make: Callable[[], httpx.AsyncBaseTransport] = httpx.AsyncHTTPTransport, **options: Any
    ) -> None:
        super().__init__(connector, make, **options)
