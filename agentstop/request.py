"""What a run asks of the gate, and how an operation is listed before it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict

from agentstop import bodies, conf, connectors
from agentstop.providers.base import Capability

LONGEST = 30 * 24 * 3600  # seconds of a deadline


@dataclass(frozen=True, slots=True)
class Request:
    """What a run asks for: one effect, under a key that stays the same over retries, redelivery and new runs."""

    task: int
    run: int
    key: str
    connector: str
    action: str
    args: Mapping[str, Any]
    digest: str
    capability: Capability
    deadline: float
    incarnation: int = 1
    approved: bool = False  # by a person: this incarnation, and no other

    @property
    def lease(self) -> float:
        """Seconds for which an attempt may act without a heartbeat."""
        return min(self.deadline, float(conf.LEASE))

    @property
    def on_its_way(self) -> timedelta:
        """For how long after the gate an attempt may still arrive: it writes by its deadline at the latest, and what
        was written has arrived when "not found" would be believed, a margin and the settling time later.
        """
        return timedelta(seconds=self.deadline + conf.LEASE_MARGIN) + self.capability.settling

    def arrives_while_honoured(self, resend_until: datetime | None, now: datetime) -> bool:
        """Whether an attempt that leaves now is there before the provider forgets the key."""
        return resend_until is not None and resend_until > now + self.on_its_way


class Options(TypedDict, total=False):
    """The keyword arguments by which a run's methods describe a request."""

    connector: Required[str]
    key: str
    call_id: str
    identify: Iterable[str] | None  # None: all arguments
    deadline: float | None  # None: that of the settings


def make(task: int, run: int, action: str, args: Mapping[str, Any] | None, options: Options) -> Request:
    """The checked request: a ValueError says which argument is unusable and what to pass instead."""
    key, call_id, connector = options.get("key", ""), options.get("call_id", ""), options.get("connector", "")
    identify, deadline = options.get("identify"), options.get("deadline")
    if identify is not None:
        identify = tuple(identify)
    if not key and not call_id:
        raise ValueError(
            "Pass key= (what the effect is for, the same over retries and runs) or call_id= (the framework's id of "
            "this call): without one a repeated call could not be told from a new effect."
        )
    if deadline is not None and not 0 < deadline <= LONGEST:
        raise ValueError(f"deadline must be a number of seconds above 0, at most {LONGEST}, not {deadline!r}.")
    arguments = dict(args or {})
    missing = [name for name in identify or () if name not in arguments]
    if missing:
        raise ValueError(f"identify names arguments that are not there: {', '.join(missing)}.")
    bodies.one_line(action, "action")
    bodies.one_line(connector, "connector")
    return Request(
        task=task,
        run=run,
        key=bodies.one_line(key or f"{run}:{call_id}", "key"),
        connector=connector,
        action=action,
        args=arguments,
        digest=bodies.digest(connector, action, arguments, identify),
        capability=_capability(connector, action),
        deadline=deadline or conf.DEADLINE,
    )


def _capability(connector: str, action: str) -> Capability:
    try:
        return connectors.get(connector).capability(action)
    except LookupError as error:
        raise ValueError(f"Connector {connector!r} has {error}.") from error


def listing(request: Request, now: datetime) -> dict[str, Any]:
    """The columns of an operation that is listed and has not left."""
    return {
        "connector": request.connector,
        "action": request.action,
        "digest": request.digest,
        "summary": bodies.summarise(request.args),
        "state_since": now,
        "folded_at": now,
        "created_at": now,
    }
