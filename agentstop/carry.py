"""Carries one attempt that has passed the gate to its receipt, on the sender's loop, whatever becomes of the caller."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from agentstop import asking, connectors, database, reconcile, settle, telemetry
from agentstop.dispatched import Accepted, Dispatched
from agentstop.exceptions import PassExpired, Refused
from agentstop.heartbeat import kept_alive
from agentstop.models import Operation
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Classify, Outcome, Verdict
from agentstop.passes import Pass, ticks
from agentstop.providers.base import Answer
from agentstop.sending import draining, in_domain, sender
from agentstop.settle import Admission, Settled
from agentstop.states import FINAL_CLAIMS, FINAL_STATES, SIGNS_OF_LIFE, Claim, OperationState, Source
from agentstop.stop_signal import StopSignal

OnStop = Literal["finish", "cancel"]
Tool = Callable[[Dispatched], Any]

POLL_FIRST = 0.2  # seconds between look-ups while a caller waits, growing to POLL_LAST
POLL_LAST = 5.0
FOLLOW_LAST = 1.0  # the same for what this process goes on with after the stop: short, since it holds up an exit
FOLLOWED = timedelta(seconds=20)  # for how long the worker leaves an operation to the caller that waits for it
CANNOT_BE_ASKED = (
    "The provider has accepted it and cannot be asked how it goes on. Its answer, when it is handed in, is kept as a "
    "receipt: call again with the same key to get it."
)
NOT_DONE_YET = "The provider has accepted it. What becomes of it is looked up where the provider can be asked."
SAID = FINAL_CLAIMS | {Claim.UNSENT, Claim.LOST}


@dataclass(frozen=True, slots=True)
class Manner:
    """How the caller wants its request carried."""

    send: Tool | None
    classify: Classify
    on_stop: OnStop
    wait: bool = True  # while the task is paused; False: raise Paused, for jobs that come back
    follow: bool = True  # what was accepted until it has ended; False: leave that to the worker, and answer at once


class Carry:
    """One attempt on its way. `future` yields the caller's outcome and never raises for what a provider does."""

    def __init__(self, passed: Pass, signal: StopSignal, manner: Manner) -> None:
        self.passed = passed
        self.signal = signal
        self.manner = manner
        self.recording = threading.Event()  # from here on the outcome is the database's to say
        self.future: Future[Outcome] = sender().start(self._run)

    async def _run(self) -> Outcome:
        with telemetry.span(telemetry.Span.ATTEMPT, about(self.passed), over=self.signal.is_set) as span:
            answer, error = self._judge(await self._send())
            telemetry.answered(span, answer.claim, over=self.signal.is_set())
            return await self._heard(answer, error)

    async def _heard(self, answer: Answer, error: str) -> Outcome:
        if answer.claim in SIGNS_OF_LIFE and not self.manner.follow:
            await self._keep(answer)
            outcome = CallOutcome.IGNORED if self.signal.is_set() else CallOutcome.FAILED
            return Outcome(outcome, self.passed.operation, error=NOT_DONE_YET)
        if answer.claim in SIGNS_OF_LIFE:
            await self._keep(answer, followed=FOLLOWED)
            return await self._follow(answer)
        return await self._settle(answer, error)

    async def _send(self) -> Answer:
        sending = asyncio.ensure_future(self._work())
        forget = self._cancel_on_stop(sending)
        forget_following = self._follow_up_on_stop()
        try:
            with kept_alive(self.passed):
                answer = await asking.heard_of(sending, self.passed.left)
        finally:
            forget()
        if answer.claim in FINAL_CLAIMS:
            forget_following()
        if not sending.done():  # it does not even end when told to, and may be the only one who knows
            sending.add_done_callback(self._ended_late)
        return replace(answer, claim=Claim.ENDED) if self._gave_up_cleanly(sending, answer) else answer

    async def _work(self) -> Answer:
        tool = self.manner.send
        try:
            return await (asking.by_provider(self.passed) if tool is None else self._by_tool(tool))
        except (SystemExit, KeyboardInterrupt) as error:  # let through, they would end the loop that all sends share
            return Answer(Claim.LOST, Source.SENDER, body=asking.describe(error))

    def _cancel_on_stop(self, sending: asyncio.Future[Answer]) -> Callable[[], None]:
        tool = self.manner.send
        if self.manner.on_stop != "cancel" or (tool is not None and not inspect.iscoroutinefunction(tool)):
            return _nothing  # a thread cannot be cancelled: it hears the stop signal, and its end is waited for
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            loop.call_soon_threadsafe(sending.cancel)

        return self.signal.on_set(cancel)

    def _follow_up_on_stop(self) -> Callable[[], None]:
        """Once the run is over, what no other process may reach is cancelled and looked up from here."""
        if self.manner.send is not None or not connectors.get(self.passed.request.connector).bound:
            return _nothing
        return self.signal.on_set(self._begin_following_up)

    def _begin_following_up(self) -> None:
        sender().start(self._follow_up)

    async def _follow_up(self) -> None:
        wait = POLL_FIRST
        while not draining() and await reconcile.turn(self.passed.operation):
            await asyncio.sleep(wait)
            wait = min(FOLLOW_LAST, wait * 1.5)

    def _gave_up_cleanly(self, sending: asyncio.Future[Answer], answer: Answer) -> bool:
        """A tool that declares a clean cancel, and ended for the stop, leaves no effect; of others nobody knows."""
        declared = self.manner.on_stop == "cancel" and self.manner.send is not None
        if answer.claim is Claim.UNSENT or not (declared and self.signal.is_set() and sending.done()):
            return False
        return sending.cancelled() or isinstance(sending.exception(), Refused)

    async def _by_tool(self, tool: Tool) -> Answer:
        handle = Dispatched(self.passed, self.signal)
        if inspect.iscoroutinefunction(tool):
            self.passed.require()
            return answer_of(await tool(handle), handle)
        working = sender().blocking.submit(self._in_thread, tool, handle)
        try:
            value = await asyncio.shield(asyncio.wrap_future(working))
        except asyncio.CancelledError:
            if working.cancel():  # it was still waiting for a thread
                raise PassExpired(f"Operation {self.passed.operation}: no thread was free in time. Not sent.") from None
            working.add_done_callback(partial(self._late, handle))  # the thread goes on, and is still heard
            raise
        if isinstance(value, Coroutine):  # a lambda around a coroutine function
            value = await value
        return answer_of(value, handle)

    def _in_thread(self, tool: Tool, handle: Dispatched) -> Any:
        """The threads are bounded: while this waited for one, the run may have ended and the pass expired."""
        self.passed.require()
        return tool(handle)

    def _late(self, handle: Dispatched, working: Future[Any]) -> None:
        error = working.exception()
        if isinstance(error, PassExpired) and error.unsent:
            self._hear_late(Answer(Claim.UNSENT, Source.SENDER, body=str(error)))
        elif error is None and not isinstance(working.result(), Coroutine):
            self._hear_late(answer_of(working.result(), handle), handle)

    def _ended_late(self, sending: asyncio.Future[Answer]) -> None:
        if not sending.cancelled() and sending.exception() is None and isinstance(sending.result(), Answer):
            self._hear_late(sending.result())

    def _hear_late(self, answer: Answer, handle: Dispatched | None = None) -> None:
        """Keep it for nobody's context; what the tool has handed in itself is kept already."""
        if handle is None or answer is not handle.last:
            judged, _ = self._judge(answer)
            sender().start(lambda: self._keep(judged))

    def _judge(self, answer: Answer) -> tuple[Answer, str]:
        return judged(answer, self.manner.classify)

    async def _keep(
        self,
        answer: Answer,
        *,
        asked: datetime | None = None,
        ref: str = "",
        admission: Admission | None = None,
        followed: timedelta | None = None,
    ) -> Settled:
        """Store the answer to the send, or to a look-up that was `asked` later, about `ref`."""
        request = self.passed.request
        if asked is None:
            evidence = asking.heard(
                answer, self.passed.passed_at, attempt_id=self.passed.attempt_id, answered_at=self.passed.now
            )
        else:
            evidence = asking.read_back(answer, asked, request.connector, request.action, ref)
        return await asking.keep(self.passed.operation, [evidence], admission=admission, followed=followed)

    async def _settle(self, answer: Answer, error: str, asked: datetime | None = None, ref: str = "") -> Outcome:
        self.recording.set()
        settled = await self._keep(answer, asked=asked, ref=ref, admission=Admission(self.passed.request.run, error))
        return Outcome(
            outcome=settled.outcome or CallOutcome.FAILED,
            operation=self.passed.operation,
            result=answer.result if settled.outcome is CallOutcome.ACCEPTED else None,
            error=settled.error,
        )

    async def _follow(self, accepted: Answer) -> Outcome:
        """Ask again until it is final; once the run is over the worker goes on with it, and the caller is free."""
        wait, last, ref = accepted.retry_after or POLL_FIRST, accepted.claim, accepted.ref
        kept = ticks()
        while not await self._over(wait):
            wait = min(POLL_LAST, max(POLL_FIRST, wait * 1.5))
            state, known_ref = await in_domain(_state, self.passed.operation)
            if state in FINAL_STATES or state == OperationState.UNKNOWN:
                return await in_domain(self._from_record, state)
            ref = ref or known_ref
            if not self.passed.left and not self.passed.request.capability.look_up.possible(ref):
                return Outcome(CallOutcome.FAILED, self.passed.operation, error=CANNOT_BE_ASKED)
            asked = await in_domain(database.now)
            found = await self._look_up(ref, asked)
            if found is None:
                continue
            wait = found.retry_after or wait
            if found.claim in FINAL_CLAIMS:
                return await self._settle(*self._judge(found), asked, ref)
            if found.claim is not last or found.progress is not None or ticks() - kept > self._fresh:
                last, kept = found.claim, ticks()
                await self._keep(found, asked=asked, ref=ref, followed=FOLLOWED)
        return Outcome(CallOutcome.IGNORED, self.passed.operation)

    @property
    def _fresh(self) -> float:
        """Seconds for which a sign of life need not be stored again: well before it would be too old."""
        return min(FOLLOWED.total_seconds() / 2, self.passed.request.capability.max_age.total_seconds() / 3)

    async def _over(self, seconds: float) -> bool:
        """Wait so long, or until the run is over; True if it is."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(over.set)

        forget = self.signal.on_set(tell)
        try:
            await asyncio.wait_for(over.wait(), seconds)
        except TimeoutError:
            return self.signal.is_set()
        finally:
            forget()
        return True

    async def _look_up(self, ref: str, asked: datetime) -> Answer | None:
        request = self.passed.request
        if not request.capability.look_up.possible(ref):
            return None
        submission = asking.submission_of(self.passed, ref)
        found = await asking.look_up(request.connector, submission, deadline=request.deadline)
        settled_at = self.passed.passed_at + request.capability.settling
        if found is not None and found.claim is Claim.NOT_FOUND and asked < settled_at:
            return None  # it was accepted a moment ago, and need not show yet
        return found

    def _from_record(self, state: str) -> Outcome:
        """Somebody else has settled it meanwhile: the worker, a push, a person."""
        self.recording.set()
        if state == OperationState.SUCCEEDED:
            return replayed(self.passed.operation, self.passed.request.run)
        return Outcome(CallOutcome.FAILED, self.passed.operation, error=f"The operation ended as {state}.")


def judged(answer: Answer, classify: Classify) -> tuple[Answer, str]:
    """What the answer is worth by the tool's own rule, and why its result cannot be used, if so."""
    if answer.claim is not Claim.SUCCEEDED:
        return answer, ""
    if answer.cut:
        return answer, "The answer was not read whole: the effect is recorded, its result cannot be used."
    if answer.unread:
        return answer, "The answer announces JSON and is none: the effect is recorded, its result cannot be used."
    try:
        verdict = Verdict(classify(answer.result))
    except BaseException as error:  # a rule that fails must not cost the receipt, whatever it raises
        return answer, f"The result could not be classified: {asking.describe(error)}"
    if verdict is Verdict.FAILED:
        return replace(answer, claim=Claim.FAILED), ""
    if verdict is Verdict.LOST:
        return replace(answer, claim=Claim.LOST, source=Source.SENDER), ""
    return answer, "The result is of a kind that this call cannot use." if verdict is Verdict.UNUSABLE else ""


def replayed(operation_id: int, run: int) -> Outcome:
    """The outcome for a run that asks for an operation which has succeeded already."""
    settled, value = settle.admit_replay(operation_id, run)
    accepted = settled.outcome is CallOutcome.ACCEPTED
    return Outcome(settled.outcome or CallOutcome.FAILED, operation_id, value if accepted else None, settled.error)


def _state(operation_id: int) -> tuple[str, str]:
    operation = Operation.objects.using(database.alias()).get(pk=operation_id)
    settle.fresh([operation])
    return operation.state, operation.ref


def answer_of(value: Any, handle: Dispatched) -> Answer:
    if isinstance(value, Answer):
        return value
    if isinstance(value, Accepted):
        return Answer(Claim.ACCEPTED, ref=value.ref)
    if handle.last is not None and handle.last.claim in SAID:
        return handle.last  # the tool has said itself how it ended: its returned value adds nothing
    return Answer(Claim.SUCCEEDED, result=value)


def about(passed: Pass) -> dict[str, Any]:
    """What is told of an attempt's span."""
    request = passed.request
    return {
        telemetry.Attribute.OPERATION: passed.operation,
        telemetry.Attribute.ATTEMPT: passed.attempt,
        telemetry.Attribute.CONNECTOR: request.connector,
        telemetry.Attribute.ACTION: request.action,
    }


def _nothing() -> None: ...
