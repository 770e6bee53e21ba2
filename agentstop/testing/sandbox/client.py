"""The sandbox's control and ledger for tests: plain calls that fail with a sentence."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import httpx

from agentstop.testing.sandbox.connector import sandbox_connector


class SandboxError(AssertionError):
    """The sandbox did not do what the test asked of it."""


class SandboxClient:
    """Holds requests at a point, waits for them, lets them go, and reads what really happened.

    Points: `received` (bytes there, not accepted), `accepted` (id given, effect not done, nothing answered), `working`
    (perhaps answered, effect not done), `effect` (effect done, nothing answered), `cancel` (a cancel request arrived).
    `match` is an idempotency key, a label, a text, or `*` for all. An undoing has the label of what it undoes, and its
    text after "undo: ".
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._http = httpx.Client(base_url=address, timeout=90, trust_env=False)

    def __enter__(self) -> SandboxClient:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def connector(self, **options: Any) -> dict[str, Any]:
        """An entry of `AGENTSTOP_CONNECTORS` for this sandbox; see `sandbox_connector`."""
        return sandbox_connector(self.address, **options)

    def hold(self, point: str, match: str = "*") -> None:
        """Hold at this point from now on."""
        self._control("hold", point=point, match=match)

    def wait(self, point: str, match: str = "*", *, count: int = 1, seconds: float = 30.0) -> list[dict[str, str]]:
        """The names of what is held there, as soon as `count` are; a `SandboxError` when nobody came."""
        told = self._control("wait", point=point, match=match, count=count, seconds=seconds)
        return list(told["held"])

    def release(self, point: str, match: str = "*") -> int:
        """Let everyone held there go on, and hold nobody any more; how many were held."""
        return int(self._control("release", point=point, match=match)["released"])

    def settled(self, match: str, *, seconds: float = 30.0) -> list[dict[str, Any]]:
        """The effects with this key, label or text, as soon as nobody works on them any more."""
        return list(self._control("settled", match=match, seconds=seconds)["effects"])

    def misbehave(self, **switches: Any) -> None:
        """From now on every request has these switches, unless it sets them itself; none, and all behave."""
        self._control("misbehave", **switches)

    def reset(self) -> None:
        """Let everyone go and forget everything, the ledger too."""
        self._control("reset")

    def ledger(self, *, task: str = "") -> dict[str, Any]:
        """`effects`, oldest first, and `counts` by key: submits, reads, cancels, writes."""
        told: dict[str, Any] = self._checked(self._http.get("/ledger", params={"task": task} if task else {}))
        return told

    def effects(self, key: str) -> list[dict[str, Any]]:
        """The effects that were accepted under an idempotency key, whatever became of them."""
        return [effect for effect in self.ledger()["effects"] if effect["key"] == key]

    def undos(self, key: str) -> list[dict[str, Any]]:
        """The undoings of the effects that have this idempotency key, whatever became of them; oldest first."""
        effects = self.ledger()["effects"]
        refs = {effect["ref"] for effect in effects if effect["key"] == key}
        return [effect for effect in effects if effect.get("undoes") in refs]

    def counts(self, key: str) -> dict[str, int]:
        """How often the key was submitted, looked up and cancelled, and how many effects it really had (writes)."""
        nothing = dict.fromkeys(("submits", "reads", "cancels", "writes"), 0)
        return {**nothing, **self.ledger()["counts"].get(key, {})}

    def writes(self, *, task: str) -> int:
        """How many effects with this label were really made; undoing one is another."""
        return sum(effect["state"] == "succeeded" for effect in self.ledger(task=task)["effects"])

    def standing(self, *, task: str) -> int:
        """How many of them are still there: made, not undone, and no undoing."""
        made = [effect for effect in self.ledger(task=task)["effects"] if effect["state"] == "succeeded"]
        return sum(not effect["undone_at"] and "undoes" not in effect for effect in made)

    def _control(self, verb: str, **body: Any) -> dict[str, Any]:
        told: dict[str, Any] = self._checked(self._http.post(f"/_control/{verb}", json=body))
        return told

    def _checked(self, response: httpx.Response) -> Any:
        if response.status_code != 200:
            asked = f"{response.request.method} {response.request.url.path} {response.request.read().decode()}"
            raise SandboxError(f"The sandbox answered {response.status_code} to {asked}: {response.text}")
        return response.json()
