"""One gated write over all of its sends: redirects, replays of a login, and tries again of the client's own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from agentstop import request as requests
from agentstop.integrations.http.sending import Sending
from agentstop.passes import Pass
from agentstop.states import Claim

EXTENSION = "agentstop"  # of a request: its flight, which redirects and replays of a login take along
ORIGIN = "agentstop_origin"  # of a write within an operation: where it went first
MOST = 1000  # flights that wait for their client to try again
Origin = tuple[str, str, int | None]
# What another host may be told. The headers of a client may hold logins under any name.
HARMLESS = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)


@dataclass(slots=True)
class Flight:
    """What was asked of the gate, where it goes, the pass of the last attempt, and what became of its last send."""

    asked: requests.Request
    origin: Origin
    passed: Pass | None = None
    lost: bool = False  # a send of this attempt got no usable answer
    again: bool = False  # a further send of this attempt is harmless

    def after(self, sending: Sending) -> None:
        """Take notice of a send."""
        if sending.passed is None:
            return
        seen = sending.seen
        redirected = seen is not None and seen.redirects
        self.passed = sending.passed
        self.lost = self.lost or (sending.claim is Claim.LOST and not redirected)
        lost = sending.claim is Claim.LOST and self.asked.capability.resendable
        self.again = redirected or lost or sending.claim in (Claim.REFUSED, Claim.UNSENT)

    @property
    def usable(self) -> Pass | None:
        """The pass for a further send, where that is harmless and its time is not over."""
        passed = self.passed
        return passed if passed is not None and self.again and passed.left and not passed.lease.over else None


def where(http: Any) -> Origin:
    """Scheme, host and port of a request."""
    url = http.url
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def bare(http: Any) -> None:
    """Take everything off a request that may be a secret, or name the effect."""
    for name in list(http.headers):
        if name.lower() not in HARMLESS:
            del http.headers[name]


class Flights:
    """Those whose last answer was lost and that may be sent again: by the operation that they are for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[int, int, str], Flight] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, asked: requests.Request, origin: Origin) -> Flight:
        """The flight that this request goes on with, or a new one."""
        with self._lock:
            found = self._open.pop(_name(asked), None)
        same = found is not None and found.asked.digest == asked.digest and found.usable is not None
        return found if found is not None and same else Flight(asked, origin)

    def keep(self, flight: Flight) -> None:
        """For a client that may try again; forgotten once its time is over."""
        if not flight.lost or flight.usable is None:
            return
        with self._lock:
            for name in [name for name, each in self._open.items() if each.usable is None]:
                del self._open[name]
            self._open[_name(flight.asked)] = flight
            while len(self._open) > MOST:
                self._open.popitem(last=False)


def _name(asked: requests.Request) -> tuple[int, int, str]:
    return asked.task, asked.run, asked.key
