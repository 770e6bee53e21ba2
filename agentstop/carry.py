"""Carries one attempt that has passed the gate to its receipt, on the sender's loop, whatever becomes of the caller."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from agentstop import bodies, connectors, database, settle
from agentstop.dispatched import Accepted, Dispatched
from agentstop.exceptions import PassExpired, Refused
from agentstop.gate import Pass
from agentstop.models import Operation
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Classify, Outcome, Verdict
from agentstop.providers.base import Answer, Context, LookUp, Provider, Submission
from agentstop.sending import in_domain, sender
from agentstop.settle import Admission, Heard, Settled
from agentstop.states import FINAL_CLAIMS, FINAL_STATES, Claim, OperationState, Source
from agentstop.stop_signal import StopSignal

logger = logging.getLogger(__name__)

OnStop = Literal["finish", "cancel"]
Tool = Callable[[Dispatched], Any]

POLL_FIRST = 0.2  # seconds between look-ups while a caller waits, growing to POLL_LAST
POLL_LAST = 5.0
FOLLOWED = timedelta(seconds=20)  # for how long the worker leaves an operation to the caller that waits for it
ABANDON = 5.0  # seconds given to a send that was told to end
RECORD_TRIES = 12  # a receipt is not given up at the first error: some two minutes
SAID = FINAL_CLAIMS | {Claim.UNSENT, Claim.LOST}


@dataclass(frozen=True, slots=True)
class Manner:
    """How the caller wants its request carried."""

    send: Tool | None
    classify: Classify
    on_stop: OnStop


class Carry:
    """One attempt on its way. `future` yields the caller's outcome and never raises for what a provider does."""

    def __init__(self, passed: Pass, signal: StopSignal, manner: Manner) -> None:
        self.passed = passed
        self.signal = signal
        self.manner = manner
        self.recording = threading.Event()  # from here on the outcome is the database's to say
        self.future: Future[Outcome] = sender().start(self._run)

    async def _run(self) -> Outcome:
        answer, error = self._judge(await self._send())
        if answer.claim is Claim.ACCEPTED:
            await self._record(answer, None, followed=FOLLOWED)
            return await self._follow(answer)
        return await self._settle(answer, error)

    async def _send(self) -> Answer:
        work = self._by_provider() if self.manner.send is None else self._by_tool(self.manner.send)
        task = asyncio.ensure_future(work)
        forget = self._cancel_on_stop(task)
        try:
            return await self._within_deadline(task)
        except PassExpired as error:
            return Answer(Claim.UNSENT, Source.SENDER, body=str(error))
        except (asyncio.CancelledError, Refused) as error:
            return self._gave_up(error)
        except BaseException as error:
            return Answer(Claim.LOST, Source.SENDER, body=_describe(error))
        finally:
            forget()

    def _cancel_on_stop(self, task: asyncio.Future[Answer]) -> Callable[[], None]:
        tool = self.manner.send
        if self.manner.on_stop != "cancel" or (tool is not None and not inspect.iscoroutinefunction(tool)):
            return _nothing  # a thread cannot be cancelled: it hears the stop signal, and its end is waited for
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            loop.call_soon_threadsafe(task.cancel)

        return self.signal.on_set(cancel)

    async def _within_deadline(self, task: asyncio.Future[Answer]) -> Answer:
        done, _ = await asyncio.wait({task}, timeout=self.passed.left)
        if not done:
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=ABANDON)
        if not done or task.cancelled():
            task.add_done_callback(_swallow)  # one that does not even end when told to is left behind
            return self._gave_up(TimeoutError("no answer within the deadline"))
        return task.result()

    def _gave_up(self, error: BaseException) -> Answer:
        """A tool that declares a clean cancel and gave up on the stop has sent nothing; otherwise nobody knows."""
        clean = self.manner.on_stop == "cancel" and self.manner.send is not None and self.signal.is_set()
        return Answer(Claim.UNSENT if clean else Claim.LOST, Source.SENDER, body=_describe(error))

    async def _by_provider(self) -> Answer:
        context = Context(before_write=self.passed.check, deadline=self.passed.left)
        return await self._provider.submit(self._submission(), context)

    async def _by_tool(self, tool: Tool) -> Answer:
        handle = Dispatched(self.passed, self.signal)
        if inspect.iscoroutinefunction(tool):
            return _answer(await tool(handle), handle)
        working = sender().blocking.submit(tool, handle)
        try:
            value = await asyncio.shield(asyncio.wrap_future(working))
        except asyncio.CancelledError:
            working.add_done_callback(self._late)  # the thread goes on: what it brings is still evidence
            raise
        if isinstance(value, Coroutine):  # a lambda around a coroutine function
            value = await value
        return _answer(value, handle)

    def _late(self, working: Future[Any]) -> None:
        if working.exception() is None and not isinstance(working.result(), Coroutine):
            answer, _ = self._judge(Answer(Claim.SUCCEEDED, result=working.result()))
            sender().start(lambda: self._record(answer, None))

    def _judge(self, answer: Answer) -> tuple[Answer, str]:
        """What the answer is worth by the tool's own rule, and why its result cannot be used, if so."""
        if answer.claim is not Claim.SUCCEEDED:
            return answer, ""
        try:
            verdict = self.manner.classify(answer.result)
        except Exception as error:  # a rule that fails must not cost the receipt
            return answer, f"The result could not be classified: {_describe(error)}"
        if verdict is Verdict.FAILED:
            return replace(answer, claim=Claim.FAILED), ""
        if verdict is Verdict.LOST:
            return replace(answer, claim=Claim.LOST, source=Source.SENDER), ""
        return answer, "The result is of a kind that this call cannot use." if verdict is Verdict.UNUSABLE else ""

    @property
    def _provider(self) -> Provider:
        return connectors.get(self.passed.request.connector)

    def _submission(self, ref: str = "") -> Submission:
        request = self.passed.request
        return Submission(
            operation=self.passed.operation,
            action=request.action,
            args=request.args,
            idempotency_key=self.passed.idempotency_key,
            attempt=self.passed.attempt,
            ref=ref,
        )

    async def _settle(self, answer: Answer, error: str, asked: datetime | None = None) -> Outcome:
        settled = await self._record(answer, Admission(self.passed.request.run, error), asked=asked)
        return Outcome(
            outcome=settled.outcome or CallOutcome.FAILED,
            operation=self.passed.operation,
            result=answer.result if settled.outcome is CallOutcome.ACCEPTED else None,
            error=settled.error,
        )

    async def _record(
        self,
        answer: Answer,
        admission: Admission | None,
        *,
        asked: datetime | None = None,
        followed: timedelta | None = None,
    ) -> Settled:
        heard = Heard(
            claim=answer.claim,
            source=answer.source,
            asked_at=asked or self.passed.passed_at,
            attempt_id=None if asked else self.passed.attempt_id,
            ref=answer.ref,
            body=bodies.store(answer.body if answer.result is None and answer.body else answer.result),
            authoritative=answer.authoritative,
            provider_at=answer.at,
        )
        if admission is not None:
            self.recording.set()
        for tried in range(RECORD_TRIES):
            try:
                return await in_domain(
                    settle.record, self.passed.operation, [heard], admission=admission, followed=followed
                )
            except Exception:
                logger.exception("a receipt could not be stored; trying again", extra={"action": "record_failed"})
                if tried == RECORD_TRIES - 1:
                    raise
                await asyncio.sleep(min(15.0, 0.05 * 2**tried))
        raise AssertionError("unreachable")

    async def _follow(self, answer: Answer) -> Outcome:
        """Ask again until it is final; once the run is over the worker goes on with it, and the caller is free."""
        wait, last, ref = answer.retry_after or POLL_FIRST, Claim.ACCEPTED, answer.ref
        while not await self._over(wait):
            wait = min(POLL_LAST, max(POLL_FIRST, wait * 1.5))
            state, known_ref = await in_domain(_state, self.passed.operation)
            if state in FINAL_STATES or state == OperationState.UNKNOWN:
                return await in_domain(self._from_record, state)
            ref = ref or known_ref
            asked = await in_domain(database.now)
            found = await self._look_up(ref)
            if found is None:
                continue
            wait = found.retry_after or wait
            if found.claim in FINAL_CLAIMS:
                return await self._settle(*self._judge(found), asked)
            if found.claim is not last:
                last = found.claim
                await self._record(found, None, asked=asked, followed=FOLLOWED)
        return self._ignored()

    def _ignored(self) -> Outcome:
        return Outcome(CallOutcome.IGNORED, self.passed.operation)

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

    async def _look_up(self, ref: str) -> Answer | None:
        how = self.passed.request.capability.look_up
        if how is LookUp.NONE or (how is LookUp.BY_REF and not ref):
            return None
        deadline = self.passed.request.deadline
        try:
            async with asyncio.timeout(deadline):
                return await self._provider.look_up(self._submission(ref), deadline=deadline)
        except Exception:
            logger.warning("a look-up failed; trying again", exc_info=True, extra={"action": "look_up_failed"})
            return None

    def _from_record(self, state: str) -> Outcome:
        """Somebody else has settled it meanwhile: the worker, a push, a person."""
        self.recording.set()
        if state == OperationState.SUCCEEDED:
            settled, value = settle.admit_replay(self.passed.operation, self.passed.request.run)
            accepted = settled.outcome is CallOutcome.ACCEPTED
            return Outcome(
                settled.outcome or CallOutcome.FAILED, self.passed.operation, value if accepted else None, settled.error
            )
        return Outcome(CallOutcome.FAILED, self.passed.operation, error=f"The operation ended as {state}.")


def _state(operation_id: int) -> tuple[str, str]:
    operation = Operation.objects.using(database.alias()).get(pk=operation_id)
    settle.fresh([operation])
    return operation.state, operation.ref


def _answer(value: Any, handle: Dispatched) -> Answer:
    if isinstance(value, Answer):
        return value
    if isinstance(value, Accepted):
        return Answer(Claim.ACCEPTED, ref=value.ref)
    if handle.last is not None and handle.last.claim in SAID:
        return handle.last  # the tool has said itself how it ended: its returned value adds nothing
    return Answer(Claim.SUCCEEDED, result=value)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _swallow(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _nothing() -> None: ...
