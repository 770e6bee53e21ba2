"""What the sandbox does with requests: accept, work, cancel, look up, and misbehave where it was asked to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agentstop.testing.sandbox.holds import Holds
from agentstop.testing.sandbox.ledger import Effect, KeyReused, Ledger
from agentstop.testing.sandbox.switches import LONGEST, Switches
from agentstop.testing.sandbox.undoing import asked_of, hindrance, original

SECONDS = {
    "report": 2.0,
    "upload": 0.2,
    "notification": 0.0,
    "undo": 0.0,
}  # what the work takes where the request does not say
CANCELLABLE = frozenset({"report"})
JOBS = frozenset({"report"})  # answered when accepted; the others when done
GARBAGE = b'{"status": \xff\x00 <<<'


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back: an object as JSON, or bytes as they are."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


class HangUp(Exception):
    """No answer: the connection is reset, or closed."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__("reset" if reset else "closed")
        self.reset = reset


def error(status: int, title: str, effect: Effect | None = None) -> Response:
    """A problem, with the state of the effect where there is one."""
    told = {"title": title}
    return Response(status, {**effect.as_json(), **told} if effect else told)


class Desk:
    """The provider's own logic; one loop, so what stands between two awaits happens at once."""

    def __init__(self, ledger: Ledger, holds: Holds) -> None:
        self.ledger, self.holds = ledger, holds
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._in_flight: set[str] = set()
        self._switches: dict[str, Any] = {}
        self._wrong: Counter[tuple[str, str]] = Counter()

    def resume(self) -> None:
        """Go on with what was accepted before a restart."""
        for effect in self.ledger.effects():
            if effect.state == "running":
                self._job(effect)

    def stop(self) -> None:
        """Work on nothing any more."""
        for job in self._jobs.values():
            job.cancel()
        self._jobs.clear()

    def misbehave(self, switches: Mapping[str, Any]) -> None:
        """From now on every request has these switches, unless it sets them itself."""
        Switches.read(switches)
        self._switches = dict(switches)

    def reset(self) -> None:
        """Forget everything and let everyone go."""
        self.stop()
        self._switches = {}
        self.holds.reset()
        self._wrong.clear()
        self.ledger.clear()

    async def submit(self, kind: str, key: str, body: Mapping[str, Any]) -> Response:
        """Accept a request, once for each key, and answer as its kind does."""
        try:
            given = body.get("sandbox", {})
            switches = Switches.read({**self._switches, **given} if isinstance(given, Mapping) else given)
            seconds = _seconds(kind, body, switches)
        except ValueError as problem:
            return error(400, str(problem))
        self.ledger.asked(key, "submits")
        if key and key in self._in_flight:
            return error(409, "a request with this key is being worked on")
        self._in_flight.add(key)
        try:
            return await self._submit(kind, key, body, seconds=seconds, switches=switches)
        finally:
            self._in_flight.discard(key)

    async def undo(self, key: str, body: Mapping[str, Any]) -> Response:
        """Take back an effect that was made: an effect of its own, while the record of the first one stays."""
        first = original(self.ledger, body)
        if first is None:
            self.ledger.asked(key, "submits")
            return error(404, "there is nothing of that name to undo")
        return await self.submit("undo", key, asked_of(first, body))

    async def _submit(
        self, kind: str, key: str, body: Mapping[str, Any], *, seconds: float, switches: Switches
    ) -> Response:
        names = {"key": key, "label": str(body.get("label", "")), "text": str(body.get("text", ""))}
        await self.holds.pass_point("received", names)
        if self._errs(key, "server_error", switches.server_error):
            return error(500, "an error, before anything was accepted")
        if switches.refuse:
            return error(400, "refused")
        undoes = str(body["undoes"]) if kind == "undo" else ""
        if undoes and (problem := hindrance(self.ledger, key, undoes)):
            return error(*problem)
        try:
            effect = self.ledger.accept(kind, key, body, seconds=seconds, switches=switches, undoes=undoes)
        except KeyReused as problem:
            return error(422, str(problem))
        await self.holds.pass_point("accepted", names)
        job = self._job(effect)
        if switches.drop:
            raise HangUp(reset=True)
        if kind not in JOBS or switches.lose_response or self.holds.would_hold("effect", names):
            await asyncio.wait([job])
        await self.holds.pass_point("effect", names)
        if switches.lose_response:
            raise HangUp(reset=False)
        return self._accepted(effect, nonsense=switches.nonsense)

    def _accepted(self, effect: Effect, *, nonsense: bool) -> Response:
        now = self.ledger.by_id(effect.kind, effect.id) or effect
        if effect.switches.answer_done:
            now = replace(now, state="succeeded")
        if nonsense:
            return Response(202 if effect.kind in JOBS else 201, GARBAGE)
        if effect.kind in JOBS:
            return Response(202, now.as_json(), {"location": now.ref, "retry-after": "1"})
        # A word about the effect, not about the request: a failed one is told with 200 and its state.
        return Response(201 if now.state == "succeeded" else 200, now.as_json(), {"location": now.ref})

    def by_key(self, key: str) -> Response:
        """What became of the request with this key. Nothing but the count of reads changes."""
        return self._look_up(key, self.ledger.by_key(key))

    def by_id(self, kind: str, number: int) -> Response:
        """What became of the effect with this id."""
        effect = self.ledger.by_id(kind, number)
        return self._look_up(effect.key if effect else f"/{kind}s/{number}", effect)

    def _look_up(self, key: str, effect: Effect | None) -> Response:
        self.ledger.asked(key, "reads")
        if effect is None or (effect.undone_at and effect.switches.forget_undone):
            return error(404, "there is nothing of that name")
        if self._errs(effect.key, "look_up_error", effect.switches.look_up_error):
            return error(503, "cannot look now")
        headers = {"content-location": effect.ref}
        return Response(200, effect.as_json(), headers | ({"retry-after": "1"} if effect.state == "running" else {}))

    async def settled(self, match: str, *, seconds: float) -> list[Effect]:
        """The effects with this key, label or text, as soon as nobody works on them; none when the time is over."""
        effects = [effect for effect in self.ledger.effects() if match in effect.names.values()]
        jobs = [self._job(effect) for effect in effects]
        if not jobs or (await asyncio.wait(jobs, timeout=seconds))[1]:
            return []
        return [self.ledger.by_id(effect.kind, effect.id) or effect for effect in effects]

    async def cancel(self, found: Effect | None) -> Response:
        """Cancel what can still be cancelled; the answer tells the state in any case."""
        if found is None:
            return error(404, "there is nothing of that name")
        self.ledger.asked(found.key, "cancels")
        await self.holds.pass_point("cancel", found.names)
        effect = self.ledger.by_id(found.kind, found.id) or found
        if self._errs(effect.key, "cancel_error", effect.switches.cancel_error):
            return error(500, "an error, nothing was cancelled")
        if effect.kind not in CANCELLABLE:
            return error(405, f"{effect.kind}s cannot be cancelled", effect)
        if effect.state == "running":
            return self._cancel_running(effect)
        if effect.state == "cancelled":
            return Response(200, effect.as_json())
        return error(409, f"it has {effect.state}", effect)

    def _cancel_running(self, effect: Effect) -> Response:
        if effect.switches.refuse_cancel:
            return error(409, "it is too late", effect)
        if effect.switches.ack_and_complete:
            return Response(202, effect.as_json())
        if effect.switches.confirm_and_complete:
            return Response(200, replace(effect, state="cancelled").as_json())
        self.ledger.cancelled(effect.id)
        if job := self._jobs.get(effect.id):
            job.cancel()
        return Response(200, (self.ledger.by_id(effect.kind, effect.id) or effect).as_json())

    def _job(self, effect: Effect) -> asyncio.Task[None]:
        """The one task that works on an effect, begun where nobody did."""
        if effect.id not in self._jobs:
            self._jobs[effect.id] = asyncio.create_task(self._work(effect))
        return self._jobs[effect.id]

    async def _work(self, effect: Effect) -> None:
        if effect.state != "running":
            return
        await self.holds.pass_point("working", effect.names)
        self.ledger.started(effect.id)
        await asyncio.sleep(effect.seconds)
        self.ledger.finished(effect.id, failed=effect.switches.fail)

    def _errs(self, key: str, switch: str, times: int) -> bool:
        """Whether this is one of the first so many times for the key."""
        self._wrong[key, switch] += 1
        return self._wrong[key, switch] <= times


def _seconds(kind: str, body: Mapping[str, Any], switches: Switches) -> float:
    told = body.get("seconds", SECONDS[kind]) if switches.slow < 0 else switches.slow
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= LONGEST:
        raise ValueError(f"seconds must be a number from 0 to {LONGEST:g}")
    return float(told)
