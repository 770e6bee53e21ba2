"""The world as a connector: what the product itself sends, asks and cancels goes through here."""

from __future__ import annotations

import threading

from agentstop.providers.base import Answer, CancelReply, Capability, Context, Provider, Submission
from agentstop.states import Claim, Source
from tests.soak.world import PROFILES, Dropped, Sent, World

_current: list[World] = []
_lock = threading.Lock()


def install(world: World) -> None:
    """From now on this is the world that the connector speaks to."""
    _current[:] = [world]


class WorldProvider(Provider):
    """Speaks to the world of the current episode."""

    def capability(self, action: str) -> Capability:
        return PROFILES[action]

    async def submit(self, submission: Submission, context: Context) -> Answer:
        world, key = _current[0], str(submission.args["original_key"])
        sent = Sent(
            submission.operation,
            submission.attempt,
            submission.action,
            submission.idempotency_key.replace("-", ""),
            key.replace("-", ""),
        )
        context.before_write()
        with _lock:
            world.flights.append(sent)
            if world.chance(5):  # held up on the way: it arrives later, or never
                raise Dropped("no answer came")
            letter = world.arrive(sent, world.clock.virtual())
            if not world.chance(4):
                world.letters.remove(letter)
                return Answer(letter.claim, ref=letter.ref)
        raise Dropped("the answer was dropped")

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        world = _current[0]
        with _lock:
            if world.chance(5):
                return None
            claim, ref = world.look_up(submission.action, submission.idempotency_key.replace("-", ""), submission.ref)
        return Answer(claim, Source.READ_BACK, ref=ref)

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        world = _current[0]
        with _lock:
            if world.chance(6):
                return CancelReply(Claim.UNSENT, "no connection")
            claim, told, ref = world.cancel(
                submission.action, submission.idempotency_key.replace("-", ""), submission.ref
            )
        return CancelReply(claim, answer=Answer(told, ref=ref) if told is not None else None)
