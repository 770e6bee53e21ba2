"""Barriers: named points at which a test holds requests, waits until one is there, and lets it go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

POINTS = ("received", "accepted", "working", "effect", "cancel")
LIMIT = 300.0  # seconds that a request is held at the most
ANY = "*"


class HeldTooLong(Exception):
    """A request was held longer than the limit: the test forgot to release it, or died."""


@dataclass(slots=True, eq=False)
class Hold:
    """One barrier: everything whose key, label or text equals `match` waits at `point` until it is released."""

    point: str
    match: str
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    held: list[dict[str, str]] = field(default_factory=list)
    overrun: bool = False

    def takes(self, point: str, names: dict[str, str]) -> bool:
        return self.point == point and (self.match == ANY or self.match in names.values())


class Holds:
    """All barriers of one sandbox."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []
        self._arrived = asyncio.Condition()

    def __contains__(self, at: tuple[str, str]) -> bool:
        return any((hold.point, hold.match) == at for hold in self._holds)

    def add(self, point: str, match: str) -> None:
        """Hold from now on; a ValueError says what is no point, or already held."""
        if point not in POINTS:
            raise ValueError(f"{point!r} is no point: use one of {', '.join(POINTS)}")
        if not match:
            raise ValueError(f"nothing can be held by an empty name: use a key, a label, a text or {ANY}")
        if (point, match) in self:
            raise ValueError(f"{match!r} is already held at {point}: release it first")
        self._holds.append(Hold(point, match))

    def would_hold(self, point: str, names: dict[str, str]) -> bool:
        return any(hold.takes(point, names) for hold in self._holds)

    async def pass_point(self, point: str, names: dict[str, str]) -> None:
        """Wait here until no barrier holds this request any more."""
        for hold in [hold for hold in self._holds if hold.takes(point, names)]:
            hold.held.append(names)
            async with self._arrived:
                self._arrived.notify_all()
            try:
                async with asyncio.timeout(LIMIT):
                    await hold.opened.wait()
            except TimeoutError:
                hold.overrun = True
                raise HeldTooLong(f"held at {point} for more than {LIMIT:g} s: release it, or reset") from None
            finally:
                hold.held.remove(names)

    async def wait(self, point: str, match: str, *, count: int, seconds: float) -> list[dict[str, str]] | None:
        """Who is held there, as soon as `count` are; None when the time is over. A KeyError where nothing holds."""
        hold = self._find(point, match)
        try:
            async with asyncio.timeout(seconds), self._arrived:
                await self._arrived.wait_for(lambda: len(hold.held) >= count)
        except TimeoutError:
            return None
        return list(hold.held)

    def release(self, point: str, match: str) -> int:
        """Let everyone go and hold nobody any more; a `HeldTooLong` where somebody could not wait."""
        hold = self._find(point, match)
        self._holds.remove(hold)
        hold.opened.set()
        if hold.overrun:
            raise HeldTooLong(f"a request was held at {point} for more than {LIMIT:g} s and has failed")
        return len(hold.held)

    def reset(self) -> None:
        """Let everyone go."""
        for hold in self._holds:
            hold.opened.set()
        self._holds.clear()

    def _find(self, point: str, match: str) -> Hold:
        for hold in self._holds:
            if (hold.point, hold.match) == (point, match):
                return hold
        raise KeyError(f"nothing holds {match!r} at {point!r}: hold first")
