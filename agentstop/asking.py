"""Speaking to providers and keeping what they say: every question has a deadline, every answer becomes a receipt.

Coroutines for the sender's loop. What a provider's code raises is evidence too: that nothing usable came back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from agentstop import bodies, conf, connectors, database, settle
from agentstop.exceptions import ConnectorNotConfigured, PassExpired
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.folds.references import open_ones
from agentstop.hearing import Hearing
from agentstop.heartbeat import kept_alive
from agentstop.models import Operation
from agentstop.passes import Lease, Pass
from agentstop.providers.base import Answer, CancelReply, Context, LookUp, Provider, Submission
from agentstop.sending import in_domain, sender
from agentstop.settle import Admission, Heard, Settled
from agentstop.states import Claim, Source

logger = logging.getLogger(__name__)

R = TypeVar("R")

ABANDON = 5.0  # seconds given to a send that was told to end
ASKED_AT_ONCE = 10  # jobs of one operation: a provider that names each answer anew must not be asked for ever more
RECORD_TRIES = 12  # a receipt is not given up at the first error: some two minutes


def submission_of(passed: Pass, ref: str = "") -> Submission:
    """What the provider gets of an attempt that has passed the gate."""
    request = passed.request
    return Submission(passed.operation, request.action, request.args, passed.idempotency_key, passed.attempt, ref)


def submission_of_row(operation: Operation, ref: str | None = None) -> Submission:
    """What the provider gets of a stored operation: its arguments are not kept, and look-ups and cancels need none.

    `ref`: the job that is meant, where it is another one than the operation's own reference names.
    """
    ref = operation.ref if ref is None else ref
    return Submission(operation.pk, operation.action, {}, str(operation.idempotency_key), operation.attempts, ref)


async def submit(passed: Pass) -> Settled:
    """Send it by its provider and keep the answer, for nobody's context."""
    with kept_alive(passed):
        answer = await heard_of(asyncio.ensure_future(by_provider(passed)), passed.left)
    evidence = heard(answer, passed.passed_at, attempt_id=passed.attempt_id, answered_at=passed.now)
    return await keep(passed.operation, [evidence])


async def by_provider(passed: Pass) -> Answer:
    """One send by the connector's provider; what it says besides its answer is kept for nobody's context."""

    async def kept(answer: Answer) -> Settled:
        evidence = heard(_answer(answer), passed.passed_at, attempt_id=passed.attempt_id, answered_at=passed.now)
        return await keep(passed.operation, [evidence])

    context = Context(before_write=passed.check, deadline=passed.left, heard=Hearing(kept))
    return await _provider(passed.request.connector).submit(submission_of(passed), context)


def reaches(operation: Operation) -> bool:
    """Whether this process can ask about a stored operation, or ask to have it given up."""
    try:
        provider = connectors.get(operation.connector)
    except ConnectorNotConfigured:
        return True  # that it cannot be asked is said where it is tried
    return not provider.bound or provider.reaches(submission_of_row(operation))


def _provider(connector: str) -> Provider:
    provider = connectors.get(connector)
    sender().at_end(provider, provider.aclose)
    return provider


async def heard_of(sending: asyncio.Future[Answer], seconds: float) -> Answer:
    """What came of a send, at the latest after so many seconds; never raises for what its code does."""
    try:
        return _answer(await _ended(sending, seconds))
    except PassExpired as error:
        return Answer(Claim.UNSENT if error.unsent else Claim.LOST, Source.SENDER, body=str(error))
    except BaseException as error:
        return Answer(Claim.LOST, Source.SENDER, body=describe(error))


async def _ended(asked: asyncio.Future[R], seconds: float) -> R:
    """The result, at the latest so many seconds and a little later: one that does not even end when told to is left."""
    done, _ = await asyncio.wait({asked}, timeout=seconds)
    if not done:
        asked.cancel()
        done, _ = await asyncio.wait({asked}, timeout=ABANDON)
        if not done:
            asked.add_done_callback(_swallow)
            logger.warning("a provider's code did not end at its deadline", extra={"action": "abandoned"})
        if not done or asked.cancelled():
            raise TimeoutError("no answer within the deadline")
    return asked.result()


async def look(operation: Operation) -> Settled | None:
    """Look a stored operation up, each job of it that may go on, and keep what is found; None where no answer came."""
    connector, action = operation.connector, operation.action
    refs = await in_domain(_to_ask_about, operation)
    asked = await in_domain(database.now)
    submissions = [submission_of_row(operation, ref) for ref in refs]
    found = await asyncio.gather(*(look_up(connector, one, deadline=conf.DEADLINE) for one in submissions))
    told = zip(refs, found, strict=True)
    evidence = [read_back(answer, asked, connector, action, ref) for ref, answer in told if answer is not None]
    return await keep(operation.pk, evidence) if evidence else None


def _to_ask_about(operation: Operation) -> Sequence[str]:
    """By the key once; by reference each job that is not known to be over, or all where the outcome is open anyway."""
    if connectors.capability(operation.connector, operation.action).look_up is not LookUp.BY_REF:
        return [operation.ref]
    jobs = fold(facts_of([operation])[operation.pk], database.now()).jobs
    return (open_ones(jobs) or [job.ref for job in jobs] or [operation.ref])[:ASKED_AT_ONCE]


async def look_up(connector: str, submission: Submission, *, deadline: float) -> Answer | None:
    """Ask what became of an operation; None where no answer came, which says nothing."""
    provider = _provider(connector)
    try:
        found = await _ended(asyncio.ensure_future(provider.look_up(submission, deadline=deadline)), deadline)
        return None if found is None else _answer(found)
    except Exception:
        extra = {"action": "look_up_failed", "operation": submission.operation}
        logger.warning("a look-up failed; it is tried again", exc_info=True, extra=extra)
        return None


async def cancel(connector: str, submission: Submission, lease: Lease) -> CancelReply:
    """Ask the provider to give an operation up, while the lease lasts; the reply says what became of the request."""
    provider = _provider(connector)
    context = Context(before_write=partial(_in_time, submission, lease), deadline=lease.left)
    try:
        _require_time(submission, lease)
        asked = asyncio.ensure_future(provider.cancel(submission, context))
        return _reply(await _ended(asked, context.deadline))
    except PassExpired as error:
        return CancelReply(Claim.UNSENT if error.unsent else Claim.LOST, body=str(error))
    except Exception as error:
        extra = {"action": "cancel_failed", "operation": submission.operation}
        logger.warning("a cancel request got no answer", exc_info=True, extra=extra)
        return CancelReply(Claim.LOST, body=describe(error))


def _in_time(submission: Submission, lease: Lease) -> None:
    _require_time(submission, lease)
    lease.used = True


def _require_time(submission: Submission, lease: Lease) -> None:
    """A later one could give up what another run has sent with the same key meanwhile."""
    if lease.over:
        error = PassExpired(f"Operation {submission.operation}: the time of this cancel request is over. Not sent.")
        error.unsent = not lease.used
        raise error


def _answer(given: Any) -> Answer:
    """What a provider's code has given, where it can be stored as it is; a TypeError says why not."""
    if not isinstance(given, Answer):
        raise TypeError(f"expected an Answer, got {given!r:.200}")
    told = isinstance(given.claim, Claim) and isinstance(given.source, Source)
    if not told or not isinstance(given.ref, str) or not isinstance(given.body, str):
        raise TypeError(f"expected an Answer with a Claim, a Source and texts, got {given!r:.200}")
    return given


def _reply(given: Any) -> CancelReply:
    if not isinstance(given, CancelReply) or not isinstance(given.claim, Claim) or not isinstance(given.body, str):
        raise TypeError(f"expected a CancelReply with a Claim and a text, got {given!r:.200}")
    if given.answer is not None:
        _answer(given.answer)
    return given


def heard(
    answer: Answer,
    asked_at: datetime,
    *,
    attempt_id: int | None = None,
    source: Source | None = None,
    authoritative: bool = True,
    answered_at: datetime | None = None,
) -> Heard:
    """The evidence in an answer. `source` where it is another than the answer's own: a look-up's is a read-back."""
    going = answer.claim is Claim.RUNNING and answer.progress is not None
    value = answer.body if answer.result is None and answer.body else answer.result
    body, result = bodies.pair(answer.progress if going else value, cut=answer.cut)
    if answer.unread:
        body, result = replace(body, form=bodies.Form.REPR), replace(result, form=bodies.Form.REPR)
    return Heard(
        claim=Claim.PROGRESS if going else answer.claim,
        source=source or answer.source,
        asked_at=asked_at,
        attempt_id=attempt_id,
        ref=answer.ref,
        body=body,
        result=result,
        authoritative=answer.authoritative and authoritative,
        provider_at=answer.at if answer.at is not None and answer.at.tzinfo is not None else None,
        answered_at=answered_at,
    )


def read_back(answer: Answer, asked_at: datetime, connector: str, action: str, ref: str = "") -> Heard:
    """The evidence in the answer to a look-up: absence proves something only where the look-up is authoritative.

    What an intermediary says of the effect stays its word, also when it was asked. Asked by `ref`, where the provider
    is asked so, the answer is about that job, however it names it.
    """
    capability = connectors.capability(connector, action)
    if ref and capability.look_up is LookUp.BY_REF:
        answer = replace(answer, ref=ref)
    source = Source.INTERMEDIARY if answer.source is Source.INTERMEDIARY else Source.READ_BACK
    return heard(answer, asked_at, source=source, authoritative=capability.authoritative)


async def keep(
    operation_id: int,
    evidence: Sequence[Heard],
    *,
    admission: Admission | None = None,
    followed: timedelta | None = None,
) -> Settled:
    """Store evidence, and try again for some two minutes where the database fails: it may be the only proof."""
    for tried in range(RECORD_TRIES):
        try:
            return await in_domain(settle.record, operation_id, evidence, admission=admission, followed=followed)
        except Exception:
            if tried == RECORD_TRIES - 1:
                raise
            extra = {"action": "record_failed", "operation": operation_id}
            logger.exception("a receipt could not be stored; it is tried again", extra=extra)
            await asyncio.sleep(min(15.0, 0.05 * 2**tried))
    raise AssertionError("unreachable")


def describe(error: BaseException) -> str:
    """The error in one line, for a receipt's body."""
    return f"{type(error).__name__}: {error}"


def _swallow(sending: asyncio.Future[Any]) -> None:
    if not sending.cancelled():
        sending.exception()
