"""How a job ends that may not go on: with a value that says so, since Django knows no end but success and failure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentstop.integrations.django_tasks.framework import AnyResult

NAME = "agentstop"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job went no further. `again`: the id of the job that was sent for later, or "" where it is for good."""

    reason: str  # a word of the vocabulary, as `stopped` or `paused`
    words: str
    again: str = ""

    def as_value(self) -> dict[str, Any]:
        """What the job returns."""
        return {NAME: asdict(self)}


def refusal_of(result: AnyResult) -> Refusal | None:
    """Why that job went no further, or None: it goes on, was done, or has failed. Ask it before `return_value`."""
    value = result.return_value if result.status == "SUCCESSFUL" else None
    if not isinstance(value, dict) or set(value) != {NAME}:
        return None
    return Refusal(**value[NAME])
