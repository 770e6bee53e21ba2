"""What a caller can ask the sandbox to do wrong, in the field `sandbox` of a request's body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

LONGEST = 3600.0


@dataclass(frozen=True, slots=True)
class Switches:
    """How one effect misbehaves; kept with it, and no part of its identity.

    Counts say how many times: `true` is once.
    """

    slow: float = -1.0  # the work takes so many seconds, whatever the request says
    fail: bool = False  # the work ends as failed
    drop: bool = False  # accepted, then the connection is reset without an answer
    lose_response: bool = False  # the effect is done, then the connection is closed without an answer
    nonsense: bool = False  # the effect is done, the answer is garbage
    answer_done: bool = False  # the answer says "succeeded", whatever became of it
    refuse: bool = False  # 400, nothing accepted
    server_error: int = 0  # 500 so many times, nothing accepted
    refuse_cancel: bool = False  # 409 to DELETE while it works
    ack_and_complete: bool = False  # 202 to DELETE, and it completes all the same
    confirm_and_complete: bool = False  # 200 and "cancelled" to DELETE, and it completes all the same
    cancel_error: int = 0  # 500 to DELETE so many times
    look_up_error: int = 0  # 503 to look-ups so many times
    forget_undone: bool = False  # once it is undone, look-ups answer 404
    undo: Mapping[str, Any] = field(default_factory=dict)  # the switches of its undoing

    @classmethod
    def read(cls, given: Any) -> Switches:
        """The switches in a request; a ValueError says which is unknown or has no use."""
        if not isinstance(given, Mapping):
            raise ValueError("sandbox must be an object of switches")
        undo = cls.read(given["undo"]).as_json() if "undo" in given else {}
        plain = {name: value for name, value in given.items() if name != "undo"}
        known: dict[str, type] = {one.name: type(one.default) for one in fields(cls) if one.name != "undo"}
        for name, value in plain.items():
            if name not in known:
                raise ValueError(f"unknown switch {name!r}: use one of {', '.join((*known, 'undo'))}")
            if not isinstance(value, int | float) or not -1 <= value <= LONGEST:
                raise ValueError(f"the switch {name!r} cannot be {value!r}")
        return cls(**{name: known[name](value) for name, value in plain.items()}, undo=undo)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
