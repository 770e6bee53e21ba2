"""Wrong tokens, counted by the address that they come from. A right one is let in all the same."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from ipaddress import IPv6Address, ip_address, ip_network

logger = logging.getLogger(__name__)

MOST = 20  # wrong ones of one address within the window
WINDOW = 60.0  # seconds
ADDRESSES = 10_000  # that are kept in mind: the one that was heard of longest ago is forgotten first


class Guesses:
    """The wrong tokens of a while, in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def wrong(self, address: str) -> int:
        """One more of this address; in how many seconds it may try again, and 0 where it has not tried too much."""
        who, now = _network(address), time.monotonic()
        with self._lock:
            times = self._wrong.setdefault(who, deque(maxlen=MOST + 1))
            self._wrong.move_to_end(who)
            while len(self._wrong) > ADDRESSES:
                self._wrong.popitem(last=False)
            first_too_many = len(times) == MOST and times[0] > now - WINDOW
            times.append(now)
            left = times[0] + WINDOW - now if len(times) > MOST else 0.0
        if first_too_many:
            logger.warning("many wrong tokens from %s", who, extra={"action": "tokens_guessed"})
        return max(0, int(left) + 1) if left > 0 else 0

    def forget(self) -> None:
        with self._lock:
            self._wrong.clear()


def _network(address: str) -> str:
    """One who has an IPv6 network has all of its addresses."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:100]
    found = getattr(found, "ipv4_mapped", None) or found  # as a socket for both kinds tells of those of the old one
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found)


guesses = Guesses()
