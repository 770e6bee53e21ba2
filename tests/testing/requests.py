"""Plain requests to the sandbox."""

from __future__ import annotations

from typing import Any

import httpx

GUARD = 30.0


def create(http: httpx.Client, kind: str = "report", key: str = "k", **body: Any) -> httpx.Response:
    return http.post(f"/{kind}s", json=body, headers={"Idempotency-Key": key} if key else {})


def status(http: httpx.Client, key: str = "k") -> Any:
    return http.get(f"/operations/{key}").json().get("status")
