"""Plain requests to the sandbox."""

from __future__ import annotations

from typing import Any

import httpx

GUARD = 30.0


def create(http: httpx.Client, kind: str = "report", key: str = "k", **body: Any) -> httpx.Response:
    return http.post(f"/{kind}s", json=body, headers={"Idempotency-Key": key} if key else {})


def status(http: httpx.Client, key: str = "k") -> Any:
    return http.get(f"/operations/{key}").json().get("status")


def undo(http: httpx.Client, key: str = "u", **body: Any) -> httpx.Response:
    """Undoes the effect with the key `k`, where nothing else is said."""
    return create(http, "undo", key, **(body if "original_ref" in body else {"original_key": "k", **body}))
