"""The pass: leave to send one attempt of one operation, good while its lease is renewed and its run is live."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agentstop.exceptions import PassExpired
from agentstop.request import Request
from agentstop.stop_signal import StopSignal


def ticks() -> float:
    """Seconds on a clock that no one sets, and that counts the time for which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """How long an attempt may act on what the gate has said; made before the gate is asked, so that it errs early."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = ticks()
        self._good_until = self.began + seconds
        self.used = False  # something was let through on it

    @property
    def over(self) -> bool:
        return ticks() >= self._good_until

    @property
    def left(self) -> float:
        """Seconds until it is over."""
        return max(0.0, self._good_until - ticks())

    def renew(self, asked: float) -> None:
        """The database has extended it, asked at this tick."""
        self._good_until = asked + self.seconds


@dataclass(frozen=True, slots=True)
class Pass:
    """What the gate gives for one attempt that it has let through."""

    request: Request
    operation: int
    attempt: int
    attempt_id: int
    idempotency_key: str
    passed_at: datetime
    lease: Lease = field(compare=False)
    signal: StopSignal | None = field(default=None, compare=False)

    def check(self) -> None:
        """The last thing before the first byte, of each try: raises PassExpired where nothing may leave."""
        self.require()
        self.lease.used = True

    def require(self) -> None:
        """The same, before code is called that checks by itself: it does not count as a try."""
        if self.signal is not None and self.signal.reason is not None:
            raise self._expired(f"the run is over ({self.signal.reason.reason}). Not sent.")
        if self.lease.over or not self.left:
            raise self._expired("the gate pass has expired. Not sent; ask the gate again.")

    def _expired(self, why: str) -> PassExpired:
        error = PassExpired(f"Operation {self.operation}: {why}")
        error.unsent = not self.lease.used
        return error

    @property
    def now(self) -> datetime:
        """The database's time by this process's clock: from when the gate was asked, so that it errs late."""
        return self.passed_at + timedelta(seconds=ticks() - self.lease.began)

    @property
    def left(self) -> float:
        """Seconds that remain of the deadline."""
        return max(0.0, self.lease.began + self.request.deadline - ticks())
