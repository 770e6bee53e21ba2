"""Gated transports for clients of httpx2: `httpx2.Client(transport=GatedTransport("stripe"))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2

from agentstop.integrations.http.transport import AsyncGated, Gated


class GatedTransport(Gated, httpx2.BaseTransport):
    """For `httpx2.Client`: each write is an operation of the connector, through the gate, below every retry.

    `inner` sends (default: a new `httpx2.HTTPTransport`). See `through` for whom.
    """

    def __init__(self, connector: str, inner: httpx2.BaseTransport | None = None, **options: Any) -> None:
        super().__init__(connector, inner or httpx2.HTTPTransport(), **options)


class AsyncGatedTransport(AsyncGated, httpx2.AsyncBaseTransport):
    """For `httpx2.AsyncClient`; `make` makes what sends, one for each event loop."""

    def __init__(
        self, connector: str, make: Callable[[], httpx2.AsyncBaseTransport] = httpx2.AsyncHTTPTransport, **options: Any
    ) -> None:
        super().__init__(connector, make, **options)
