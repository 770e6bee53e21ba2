"""Where a race is played: who holds the provider at a point, and who knows what it really did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from agentstop.testing.sandbox.client import SandboxClient, SandboxError


class Stage(Protocol):
    """What the runner needs of a provider. One that can be held nowhere still plays the rows of our own side."""

    can_hold: bool

    def reset(self, misbehave: Mapping[str, Any]) -> None:
        """Let everyone go, and misbehave like this from now on."""

    def behave(self) -> None:
        """Misbehave no more, but with what is under way."""

    def hold(self, point: str) -> None:
        """Hold everyone there from now on."""

    def reached(self, point: str, seconds: float) -> bool:
        """Whether somebody is held there, at the latest after so many seconds."""

    def release(self, point: str) -> None:
        """Let everyone held there go on."""

    def settled(self, key: str) -> None:
        """Return when nothing is under way for this idempotency key."""

    def writes(self, key: str) -> int:
        """How many effects with this idempotency key were really made."""

    def writes_since(self, key: str, moment: datetime) -> int:
        """How many of them were made after this moment."""

    def submits(self, key: str) -> int:
        """How often it was submitted; -1 where the provider does not count that."""


@dataclass
class SandboxStage:
    """The sandbox, on a socket or in this process: it can be held everywhere."""

    sandbox: SandboxClient
    can_hold: bool = True

    def reset(self, misbehave: Mapping[str, Any]) -> None:
        self.sandbox.reset()
        self.sandbox.misbehave(slow=0, **misbehave)

    def behave(self) -> None:
        self.sandbox.misbehave(slow=0)

    def hold(self, point: str) -> None:
        self.sandbox.hold(point)

    def reached(self, point: str, seconds: float) -> bool:
        try:
            self.sandbox.wait(point, seconds=seconds)
        except SandboxError:
            return False
        return True

    def release(self, point: str) -> None:
        self.sandbox.release(point)

    def settled(self, key: str) -> None:
        if self.sandbox.effects(key):
            self.sandbox.settled(key)

    def writes(self, key: str) -> int:
        return self.sandbox.counts(key)["writes"]

    def writes_since(self, key: str, moment: datetime) -> int:
        made = [each for each in self.sandbox.effects(key) if each["state"] == "succeeded"]
        return sum(datetime.fromisoformat(each["done_at"]) > moment for each in made)

    def submits(self, key: str) -> int:
        return self.sandbox.counts(key)["submits"]


@dataclass
class LedgerStage:
    """A provider of your own with a ledger that counts effects by idempotency key; it can be held nowhere."""

    effects: Callable[[str], int]
    wait: Callable[[str], object] = lambda key: None
    can_hold: bool = False

    def reset(self, misbehave: Mapping[str, Any]) -> None:
        self._before: dict[str, int] = {}

    def behave(self) -> None: ...

    def hold(self, point: str) -> None:
        raise NotImplementedError(point)

    def reached(self, point: str, seconds: float) -> bool:
        return False

    def release(self, point: str) -> None: ...

    def settled(self, key: str) -> None:
        self.wait(key)

    def writes(self, key: str) -> int:
        return self.effects(key)

    def writes_since(self, key: str, moment: datetime) -> int:
        """Its ledger tells no times: what was not there when Stop was pressed was made after it."""
        return self.effects(key) - self._before.get(key, 0)

    def remember(self, key: str) -> None:
        """Called when Stop is pressed."""
        self._before[key] = self.effects(key)

    def submits(self, key: str) -> int:
        return -1
