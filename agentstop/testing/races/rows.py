"""The points of an operation's way at which a stop is pressed, once before and once after they are passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OURS = frozenset({"P1", "P2 sent by anyone", "P8"})  # on our own side of the send; the others are the provider's


@dataclass(frozen=True, slots=True)
class Row:
    """A point, and how the provider misbehaves."""

    name: str
    at: str  # one of our own points, one of the sandbox's, or "" where the gate is not reached
    misbehave: Mapping[str, Any] = field(default_factory=dict)
    cancels: bool = False  # only for what can be cancelled: the request to cancel is what is raced
    accepted: bool = False  # only for what is accepted before it is done
    late_cancel: bool = False  # the request to cancel is held at the provider
    asked_at_the_end: bool = False  # a person asks the provider once more
    finishes: bool = True  # it can also be stopped after the point was passed

    @property
    def ours(self) -> bool:
        return self.at in OURS


ROWS = (
    Row("P0 prepared, gate not reached", "", finishes=False),
    Row("P1 gate open, not committed", "P1"),
    Row("P2 committed, no byte sent", "P2 sent by anyone"),
    Row("P3 sent, not accepted", "received"),
    Row("P4 accepted, id not returned", "accepted"),
    Row("P5 accepted, id returned", "working", accepted=True),
    Row("P6 effect done, response not delivered", "effect"),
    Row("P7 response lost for ever", "effect", {"lose_response": True}),
    Row("P8 response read, not admitted", "P8"),
    Row("P9 cancel request being sent", "working", cancels=True, late_cancel=True, finishes=False),
    Row("P10 cancel request fails", "working", {"cancel_error": 1}, cancels=True, finishes=False),
    Row("P10 cancel request refused", "working", {"refuse_cancel": True}, cancels=True, finishes=False),
    Row("P11 cancel acknowledged, completes", "working", {"ack_and_complete": True}, cancels=True, finishes=False),
    Row(
        "P12 cancel confirmed, then success",
        "working",
        {"confirm_and_complete": True},
        cancels=True,
        asked_at_the_end=True,
        finishes=False,
    ),
)
