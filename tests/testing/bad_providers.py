"""Providers that break the contract, each in one thing."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from agentstop.providers.base import (
    Answer,
    CancelReply,
    Capability,
    Compensation,
    Context,
    Submission,
    SubmitIdempotency,
)
from agentstop.providers.http import HttpProvider
from agentstop.states import Claim, Source


class Bad(HttpProvider):
    """Ours, with one promise broken."""


class NeverAsks(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        return await super().submit(submission, replace(context, before_write=lambda: None))

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        return await super().cancel(submission, replace(context, before_write=lambda: None))


class SwallowsTheVoidPass(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        try:
            return await super().submit(submission, context)
        except Exception as error:
            return Answer(Claim.LOST, Source.SENDER, body=str(error))


class SaysDoneWithoutSending(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        context.before_write()
        return Answer(Claim.SUCCEEDED)


class TakesSilenceForFailure(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        answer = await super().submit(submission, context)
        return replace(answer, claim=Claim.FAILED) if answer.claim is Claim.LOST else answer


class TakesSilenceForUnsent(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        answer = await super().submit(submission, context)
        return replace(answer, claim=Claim.UNSENT) if answer.claim is Claim.LOST else answer


class TakesUnsentForDone(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        answer = await super().submit(submission, context)
        return replace(answer, claim=Claim.SUCCEEDED) if answer.claim is Claim.UNSENT else answer


class TakesRefusalForDone(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        answer = await super().submit(submission, context)
        return replace(answer, claim=Claim.SUCCEEDED) if answer.claim is Claim.REFUSED else answer


class LooksUpBySending(Bad):
    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        again = replace(submission, args={"text": "one", "seconds": 0})
        return await self.submit(again, Context(lambda: None, deadline))


class FindsNothing(Bad):
    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        return Answer(Claim.NOT_FOUND, Source.READ_BACK)


class FindsWhatIsNot(Bad):
    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        return Answer(Claim.SUCCEEDED, Source.READ_BACK)


class TellsItsSecret(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        return replace(await super().submit(submission, context), body=str(self.headers))


class ContradictsItself(Bad):
    def capability(self, action: str) -> Capability:
        return replace(super().capability(action), submit=SubmitIdempotency.NONE)


class KnowsEveryAction(Bad):
    def capability(self, action: str) -> Capability:
        return self.actions[action].capability if action in self.actions else Capability()


class DoesNotEnd(Bad):
    gave_up = threading.Event()

    async def submit(self, submission: Submission, context: Context) -> Answer:
        context.before_write()
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if self.gave_up.is_set():
                    raise


class CannotBeClosedTwice(Bad):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        await super().aclose()


class SaysCancelledAndGoesOn(Bad):
    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        context.before_write()
        return CancelReply(Claim.CANCELLED, answer=Answer(Claim.CANCELLED))


class CancelClosesTheConnection(Bad):
    async def submit(self, submission: Submission, context: Context) -> Answer:
        if not hasattr(self, "over"):
            self.over = asyncio.Event()
        sending = asyncio.ensure_future(super().submit(submission, context))
        closing = asyncio.ensure_future(self.over.wait())
        await asyncio.wait({sending, closing}, return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        closing.cancel()
        return await sending

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        self.over.set()
        await asyncio.sleep(0)
        return await super().cancel(submission, context)


class IsUndoneByNothing(Bad):
    def capability(self, action: str) -> Capability:
        return replace(super().capability(action), compensation=Compensation("no.such.action"))
