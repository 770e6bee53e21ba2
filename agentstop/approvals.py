"""A call that a person has to approve: the gate is not asked before the run has taken their yes to this request."""

from __future__ import annotations

from dataclasses import replace

from agentstop import bodies, calls, database, questions, refusals
from agentstop.carry import Manner, replayed
from agentstop.exceptions import Declined, Finished, OutcomeUnknown, Paused, Stopped, Superseded
from agentstop.folds.question_states import Kind
from agentstop.models import Operation
from agentstop.models.facts import CallOutcome
from agentstop.outcomes import Outcome
from agentstop.questions import Wish
from agentstop.refusals import Replay
from agentstop.request import Request
from agentstop.sending import in_domain


def call(request: Request, manner: Manner, text: str) -> Outcome:
    """As `calls.call`, once a person has approved it; raises Declined where they do not, and records that as a refusal.

    What has succeeded before is answered from its record, and nobody is asked.
    """
    calls.require_sender(request, manner)
    calls.require_thread(request)
    try:
        found = cleared(request, text, wait=manner.wait)
    except (Stopped, Superseded, Finished) as over:
        return Outcome(CallOutcome.IGNORED, over.operation, error=str(over), refusal=over)
    return found if isinstance(found, Outcome) else calls.call(found, manner)


def cleared(request: Request, text: str, *, wait: bool) -> Request | Outcome:
    """The request with a person's yes to it, for the gate; the outcome where it has succeeded before.

    Raises Declined, which is recorded, and what asking and the gate raise; with `wait=False` Unanswered and Paused.
    """
    wish = _wish(request, text)
    try:
        found = _begin(request, wait)
        if not isinstance(found, Outcome):
            questions.ask(_of(found, wish), wait=wait)
    except Declined as declined:
        declined.operation = refusals.declined(request)
        raise
    return found


async def acall(request: Request, manner: Manner, text: str) -> Outcome:
    """As `call`. Where the caller is cancelled before it was approved, nothing is sent; the question stays."""
    calls.require_sender(request, manner)
    wish = _wish(request, text)
    try:
        found = await in_domain(_begin, request, manner.wait)
        if isinstance(found, Outcome):
            return found
        await questions.aask(await in_domain(_of, found, wish), wait=manner.wait)
    except Declined as declined:
        declined.operation = await in_domain(refusals.declined, request)
        raise
    except (Stopped, Superseded, Finished) as over:
        return Outcome(CallOutcome.IGNORED, over.operation, error=str(over), refusal=over)
    return await calls.acall(found, manner)


def _wish(request: Request, text: str) -> Wish:
    """The question about exactly this request: with other arguments, or in the next incarnation, it is another one."""
    details, cut = questions.describe(request.args)
    return Wish(
        request.task,
        request.run,
        bodies.digest(request.connector, request.action, request.args)[:16],
        Kind.APPROVE,
        questions.clean(text),
        details=details,
        cut=cut,
        connector=request.connector,
        action=request.action,
    )


def _of(request: Request, wish: Wish) -> Wish:
    """The question, with the operation that waits for it where that is listed."""
    rows = Operation.objects.using(database.alias()).filter(task=request.task, key=request.key)
    operation = rows.filter(incarnation=request.incarnation).values_list("pk", flat=True).first()
    return replace(wish, key=f"call:{request.incarnation}:{wish.key}:{request.key}", operation=operation)


def _begin(request: Request, wait: bool) -> Request | Outcome:
    """List the operation, and find which incarnation of it a person is asked about; the outcome where it is there."""
    operation = refusals.prepare(request)
    try:
        found = refusals.explain(request)
    except (Paused, OutcomeUnknown) as hindrance:  # it may be gone when the answer comes: the gate looks again
        if isinstance(hindrance, Paused) and not wait:
            raise
        found = Operation.objects.using(database.alias()).get(pk=operation).incarnation
    if isinstance(found, Replay):
        return replayed(found.operation, request.run)
    return replace(request, incarnation=found, approved=True)
