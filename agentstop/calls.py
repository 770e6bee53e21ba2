"""One gated call: the gate, the send, the receipt, the admission; the caller is freed the moment its run is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from agentstop import asking, connectors, database, liveness, settle, telemetry
from agentstop.carry import Carry, Manner, replayed
from agentstop.dispatched import Dispatched
from agentstop.exceptions import (
    AgentStopError,
    AlreadyDone,
    Finished,
    OutcomeUnknown,
    PassExpired,
    Paused,
    Stopped,
    Superseded,
)
from agentstop.follow_up import can_look_up
from agentstop.gate import open_gate
from agentstop.heartbeat import kept_alive
from agentstop.models import Operation
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Outcome
from agentstop.passes import Pass
from agentstop.processes import InProcess
from agentstop.providers.base import Answer
from agentstop.refusals import Replay
from agentstop.request import Request
from agentstop.sending import in_domain, sender
from agentstop.states import Claim, OperationState, Source
from agentstop.stop_signal import StopSignal, held, watch
from agentstop.waiting import auntil_resumed, until_resumed

R = TypeVar("R")

RUN_IS_OVER = (Stopped, Superseded, Finished)
RECORDING = 60.0  # seconds that a freed caller waits for a commit under way, which says what it got


def call(request: Request, manner: Manner) -> Outcome:
    """Send it if the gate lets it pass, and wait for the outcome or the end of the run, whichever is first.

    Raises the refusals that the agent has to act upon (Paused, Frozen, InFlight, OutcomeUnknown, KeyReused); a run that
    is over gets `ignored`.
    """
    require_sender(request, manner)
    require_thread(request)
    with telemetry.span(telemetry.Span.CALL, about(request)) as span:
        found = entered(request, lambda: _enter(request, manner), wait=manner.wait)
        return told(span, found if isinstance(found, Outcome) else _wait(found))


def about(request: Request) -> dict[str, Any]:
    """What is told of a call's span."""
    return {
        telemetry.Attribute.TASK: request.task,
        telemetry.Attribute.RUN: request.run,
        telemetry.Attribute.CONNECTOR: request.connector,
        telemetry.Attribute.ACTION: request.action,
    }


def told(span: Any, outcome: Outcome) -> Outcome:
    """The outcome, once its span has it. That a run is over, since a person has stopped it too, is no failure."""
    failed = outcome.outcome is CallOutcome.FAILED
    telemetry.ended(span, str(outcome.outcome), outcome.operation, failed=failed)
    return outcome


def entered(request: Request, enter: Callable[[], R], *, wait: bool) -> R:
    """Through the gate, after waiting for the end of a pause and, once, a look at what became of it."""
    looked = False
    while True:
        try:
            return enter()
        except Paused:
            if not wait:
                raise
            until_resumed(request.task)
        except OutcomeUnknown as refusal:
            operation = _listed(refusal)
            if looked or not can_look_up(operation) or not sender().start(partial(_look, operation)).result():
                raise
            looked = True


async def acall(request: Request, manner: Manner) -> Outcome:
    """As `call`. When the caller is cancelled, what has left goes on to its receipt."""
    require_sender(request, manner)
    with telemetry.span(telemetry.Span.CALL, about(request)) as span:
        found = await asyncio.shield(asyncio.wrap_future(sender().start(lambda: _aenter(request, manner))))
        return told(span, found if isinstance(found, Outcome) else await _await(found))


def require_sender(request: Request, manner: Manner) -> None:
    """Refuse a call that nobody could send."""
    if manner.send is None and not connectors.can_submit(request.connector):
        raise ValueError(
            f"Connector {request.connector!r} does not send by itself: pass send=, your function that sends "
            f"{request.action!r}, or give the connector a PROVIDER."
        )
    if isinstance(manner.send, InProcess):
        manner.send.require_startable()


def require_thread(request: Request) -> None:
    """Refuse a call that would wait for the very thread that it is on, or whose sender would not see its record."""
    if sender().is_here:
        raise AgentStopError(
            f"{request.action!r} was called without await on agentstop's own loop, which it would hold up for ever. "
            "Await run.acall() or a coroutine tool there, or use asyncio.to_thread(). Nothing was sent."
        )
    database.require_other_threads_to_see()


async def _aenter(request: Request, manner: Manner) -> Outcome | Carry:
    looked = False
    while True:
        try:
            return await in_domain(_enter, request, manner)
        except Paused:
            if not manner.wait:
                raise
            await auntil_resumed(request.task)
        except OutcomeUnknown as refusal:
            operation = await in_domain(_listed, refusal)
            if looked or not can_look_up(operation) or not await _look(operation):
                raise
            looked = True


def _listed(refusal: OutcomeUnknown) -> Operation:
    return Operation.objects.using(database.alias()).get(pk=refusal.operation or 0)


async def _look(operation: Operation) -> bool:
    """Before a person is asked what became of it, the provider is; True where the gate may say something else now."""
    settled = await asking.look(operation)
    return settled is not None and settled.state != OperationState.UNKNOWN


def _enter(request: Request, manner: Manner) -> Outcome | Carry:
    """Pass the gate and start the send; the signal is released when nothing needs it any more."""
    signal = watch().hold(request.task, request.run)
    try:
        passed = open_gate(request, signal)
        if isinstance(passed, Pass):
            carry = _carry(passed, signal, manner)
            carry.future.add_done_callback(lambda _: watch().release(signal))
            return carry
    except BaseException as error:
        watch().release(signal)
        if isinstance(error, RUN_IS_OVER):
            return Outcome(CallOutcome.IGNORED, error.operation, error=str(error), refusal=error)
        raise
    watch().release(signal)
    return replayed(passed.operation, request.run)


def resend(passed: Pass, manner: Manner) -> Outcome:
    """A further send of an attempt that has passed and got no usable answer: for clients that try again by themselves.

    Raises Stopped, Superseded, Finished or Paused where the run may not go on, PassExpired where its time is over.
    """
    return _wait(_again(passed, manner))


async def aresend(passed: Pass, manner: Manner) -> Outcome:
    """As `resend`."""
    return await _await(await in_domain(_again, passed, manner))


def _again(passed: Pass, manner: Manner) -> Carry:
    request = passed.request
    liveness.check(request.task, request.run)  # the signal alone could be a moment late
    signal = watch().hold(request.task, request.run)
    try:
        passed = replace(passed, signal=signal)
        passed.require()
        carry = Carry(passed, signal, manner)
    except BaseException:
        watch().release(signal)
        raise
    carry.future.add_done_callback(lambda _: watch().release(signal))
    return carry


def _carry(passed: Pass, signal: StopSignal, manner: Manner) -> Carry:
    try:
        return Carry(passed, signal, manner)
    except BaseException as error:  # this process is ending: proof that nothing was sent
        unsent = Answer(Claim.UNSENT, Source.SENDER, body=asking.describe(error))
        settle.record(passed.operation, [asking.heard(unsent, passed.passed_at, attempt_id=passed.attempt_id)])
        raise


def _wait(carry: Carry) -> Outcome:
    free = threading.Event()
    carry.future.add_done_callback(lambda _: free.set())
    forget = carry.signal.on_set(free.set)
    free.wait()
    forget()
    return _result(carry)


async def _await(carry: Carry) -> Outcome:
    loop, free = asyncio.get_running_loop(), asyncio.Event()

    def tell(*_: Any) -> None:
        try:
            loop.call_soon_threadsafe(free.set)
        except RuntimeError:  # the caller's loop is gone, and the caller with it
            pass

    carry.future.add_done_callback(tell)
    forget = carry.signal.on_set(tell)
    try:
        await free.wait()
    finally:
        forget()
    if carry.recording.is_set() and not carry.future.done():
        return await asyncio.to_thread(_result, carry)
    return _result(carry)


def _result(carry: Carry) -> Outcome:
    """The outcome if it is there, or being committed at this moment; otherwise the run is over, and the caller free."""
    if carry.future.done() or carry.recording.is_set():
        return carry.future.result(RECORDING)
    return Outcome(CallOutcome.IGNORED, carry.passed.operation, refusal=None)


@contextmanager
def dispatch(request: Request) -> Iterator[Dispatched]:
    """For code that sends by itself: the block is entered with a pass, and hands in its receipts through the handle.

    Raises a Refused instead of entering where nothing may leave. Leaving without a receipt, or by an exception that
    proves nothing, is recorded as lost: the outcome is unknown.
    """
    with (
        held(request.task, request.run) as signal,
        telemetry.span(telemetry.Span.CALL, about(request), over=signal.is_set) as span,
    ):
        passed = open_gate(request, signal)
        if isinstance(passed, Replay):
            raise AlreadyDone(
                f"Operation {request.key!r} has succeeded before: nothing is sent. Read its result with run.call()."
            )
        span.set_attribute(telemetry.Attribute.OPERATION, passed.operation)
        handle = Dispatched(passed, signal)
        try:
            with kept_alive(passed):
                yield handle
        except PassExpired as error:
            if not handle.heard:
                (handle.unsent if error.unsent else handle.lost)(error)
            raise
        except BaseException as error:
            if not handle.heard:
                handle.lost(f"{type(error).__name__}: {error}")
            raise
        if not handle.heard:
            handle.lost("The code that sends ended without a receipt.")
