"""What it takes to undo an effect: which one is meant, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentstop.testing.sandbox.ledger import Effect, Ledger


def original(ledger: Ledger, body: Mapping[str, Any]) -> Effect | None:
    """The effect that a request to undo names, by `original_ref`, by `original_key` or, if they agree, by both.

    What was made without a key has none that could disagree.
    """
    ref, key = str(body.get("original_ref", "")), str(body.get("original_key", ""))
    found = ledger.by_ref(ref) if ref else ledger.by_key(key)
    return found if found is None or not key or found.key in ("", key) else None


def asked_of(first: Effect, body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as it is kept: under the first effect's label, misbehaving as that one said its undoing should."""
    told = {"label": first.label, "text": f"undo: {first.text}", "undoes": first.ref}
    return {**body, **told, "sandbox": body.get("sandbox", first.switches.undo)}


def hindrance(ledger: Ledger, key: str, ref: str) -> tuple[int, str] | None:
    """Status and reason why this effect cannot be undone under this key; None where nothing stands in the way."""
    first, undoing = ledger.by_ref(ref), ledger.undoing(ref)
    if ledger.by_key(key) is not None:
        return None  # it has its answer already
    if first is None:
        return 404, "there is nothing of that name to undo"
    if undoing is not None:
        return 409, f"it is undone, or being undone, by {undoing.ref}"
    if first.kind == "undo":
        return 409, "an undoing cannot be undone"
    if first.state != "succeeded":
        return 409, f"it is {first.state}, so there is nothing to undo"
    return None
