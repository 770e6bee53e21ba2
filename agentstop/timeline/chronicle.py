"""Reads what happened to a task and its operations as a story, in a number of queries that does not grow with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext

from agentstop import captions, closing, database, permissions
from agentstop.accounts import selection
from agentstop.folds.histories import DecisionFact, fold_each
from agentstop.models import Attempt, Decision, Receipt, Run, Task
from agentstop.models.facts import Decided, Effect
from agentstop.reports import report
from agentstop.reports.operation_report import OperationReport
from agentstop.reports.remedies import name_of
from agentstop.reports.report import TaskReport
from agentstop.states import (
    FINAL_CLAIMS,
    FINAL_STATES,
    SIGNS_OF_LIFE,
    Claim,
    OperationState,
    RunState,
    Source,
    TaskState,
    Verb,
)
from agentstop.story import Fact, Kind, Row, Span, Story, Stretch
from agentstop.words import sentences

CHILDREN = 100  # that have a lane each; of more, how many they are
DISPATCHES = 10_000  # of all children together, the newest
REASON = 200  # characters of a reason
ENDS_AN_ATTEMPT = FINAL_CLAIMS | {Claim.UNSENT, Claim.ENDED, Claim.REFUSED}
SENT = frozenset({Kind.PASSED, Kind.CANCEL_SENT})  # each of them may have had an effect: never told as one
KINDS = {Claim.UNSENT: Kind.UNSENT, Claim.ENDED: Kind.LOST, Claim.LOST: Kind.LOST, Claim.NOT_FOUND: Kind.ABSENT}


def load(task_id: int, user: Any) -> tuple[TaskReport, Story]:
    """The task as this user may read it, and its story; TaskNotFound where there is none for them."""
    told, _ = report.load(task_id, user, selection.PICTURE)
    runs, decisions = _runs([task_id]), _decisions([task_id], [each.id for each in told.operations])
    edges = [decision.at for decision in decisions if decision.operation_id is None]
    children = Task.objects.using(database.alias()).filter(serves__parent=task_id).distinct()
    facts, stretches = _of_operations(told, decisions, edges)
    more_children = max(0, children.count() - CHILDREN)
    return told, Story(
        task=Row(
            id="task",
            name=gettext(captions.THE_TASK),
            outcome=told.name,
            facts=tuple(_about_the_task(decisions)),
        ),
        now=told.now,
        operations=tuple(_row(each, facts[each.id], stretches[each.id]) for each in told.operations),
        children=tuple(_children(children.order_by("pk")[:CHILDREN], user)),
        rest=tuple(_rest(told, more_children)),
        runs=tuple(Span(run.began_at, run.ended_at, _name(run)) for run in runs),
        pauses=tuple(_pauses(decisions)),
    )


def _name(run: Run) -> str:
    return gettext(captions.RUNS[RunState(run.state)]) % {"number": run.number}


def _rest(told: TaskReport, more_children: int) -> Iterator[str]:
    """What has no lane, in the words of the panel."""
    for text, kinds in ((told.rest.open_text, told.rest.open_kinds), (told.rest.text, told.rest.kinds)):
        if kinds:
            yield f"{text} {' · '.join(kind.text for kind in kinds)}"
    if more_children:
        yield str(captions.MORE_CHILDREN % {"number": more_children})


def _runs(tasks: Sequence[int]) -> list[Run]:
    return list(Run.objects.using(database.alias()).filter(task__in=tasks).order_by("task", "number"))


def _decisions(tasks: Sequence[int], operations: Sequence[int] = ()) -> list[Decision]:
    """What was decided about the tasks themselves and took effect, and what the gate refused of these operations.

    A stop after the task's end is among them: from then on only a person begins it again.
    """
    late = Q(verb=Decided.STOP, effect=Effect.NOTED, detail__why=closing.FINISHED)
    of_tasks = Q(operation__isnull=True) & (Q(effect=Effect.APPLIED) | late)
    refused = Q(verb=Decided.REFUSE, operation__in=operations)
    rows = Decision.objects.using(database.alias()).filter(of_tasks | refused, task__in=tasks)
    return list(rows.select_related("by").order_by("pk"))


def _about_the_task(decisions: Iterable[Decision]) -> Iterator[Fact]:
    for decision in decisions:
        if decision.operation_id is None and decision.verb in captions.DECISIONS:
            family = decision.policy == closing.FAMILY
            kind, plain, named = _caption(decision, family)
            who = gettext(captions.BY_FAMILY) if family else name_of(decision.by) or decision.policy
            text = gettext(named if who else plain) % {"run": decision.run, "who": who}
            if decision.reason and kind is not Kind.BEGUN:
                text = gettext(captions.REASON) % {"sentence": text, "reason": decision.reason[:REASON]}
            yield Fact(decision.at, kind, text)


def _caption(decision: Decision, family: bool) -> tuple[Kind, str, str]:
    if decision.effect == Effect.APPLIED:
        return captions.DECISIONS[decision.verb]
    return captions.LATE_STOP_OF_FAMILY if family else captions.LATE_STOP


def _pauses(decisions: Iterable[Decision]) -> Iterator[Span]:
    """The times in which somebody held it, by the same fold that makes its state."""
    made = [each for each in decisions if each.operation_id is None and each.effect == Effect.APPLIED]
    folds = fold_each(DecisionFact(each.verb, each.run, each.pk, each.cause_id) for each in made)
    states = [(each.at, folded.state) for each, folded in zip(made, folds, strict=True)]
    start: datetime | None = None
    for at, state in states:
        if state is TaskState.PAUSED and start is None:
            start = at
        elif state is not TaskState.PAUSED and start is not None:
            yield Span(start, at, gettext(captions.A_PAUSE))
            start = None
    if start is not None:
        yield Span(start, None, gettext(captions.A_PAUSE))


def _of_operations(
    told: TaskReport, decisions: Iterable[Decision], edges: Sequence[datetime]
) -> tuple[Mapping[int, Sequence[Fact]], Mapping[int, Sequence[Stretch]]]:
    """The facts and stretches of each operation."""
    using = database.alias()
    reports = {each.id: each for each in told.operations}
    attempts = list(Attempt.objects.using(using).filter(operation__in=reports).order_by("passed_at", "pk"))
    receipts = list(Receipt.objects.using(using).filter(operation__in=reports).defer("body").order_by("seen_at", "pk"))
    about_cancelling = {attempt.pk for attempt in attempts if attempt.verb == Verb.CANCEL}
    facts: dict[int, list[Fact]] = defaultdict(list)
    for decision in decisions:
        if decision.operation_id is not None:
            facts[decision.operation_id].append(_refused(decision))
    for attempt in attempts:
        facts[attempt.operation_id].append(_sent(attempt))
    for receipt in receipts:
        facts[receipt.operation_id].append(_heard(receipt, about_cancelling))
    closings = _closings(receipts)
    stretches: dict[int, list[Stretch]] = defaultdict(list)
    for attempt in attempts:
        if attempt.verb == Verb.SUBMIT and attempt.operation_id in reports:
            found = _under_way(attempt.passed_at, closings.get(attempt.pk), reports[attempt.operation_id])
            stretches[attempt.operation_id].extend(found)
    return defaultdict(list, {pk: list(_gathered(each, edges)) for pk, each in facts.items()}), stretches


def _refused(decision: Decision) -> Fact:
    text = gettext(sentences.REFUSALS.get(decision.reason, sentences.REFUSALS["refused"]))
    return Fact(decision.at, Kind.REFUSED, text, count=decision.count)


def _sent(attempt: Attempt) -> Fact:
    if attempt.verb == Verb.CANCEL:
        return Fact(attempt.passed_at, Kind.CANCEL_SENT, gettext(captions.CANCEL_SENT))
    return Fact(attempt.passed_at, Kind.PASSED, gettext(captions.PASSED) % {"number": attempt.number})


def _heard(receipt: Receipt, about_cancelling: Collection[int]) -> Fact:
    claim, source = Claim(receipt.claim), Source(receipt.source)
    if receipt.attempt_id in about_cancelling and claim in captions.CANCEL_ANSWERS:
        kind = Kind.ACKNOWLEDGED if claim is Claim.CANCELLED else Kind.CANCEL_FAILED
        return Fact(receipt.seen_at, kind, gettext(captions.CANCEL_ANSWERS[claim]))
    text = gettext(sentences.RECEIPTS.get((claim, source), captions.HEARD))
    if claim in SIGNS_OF_LIFE:
        return Fact(receipt.seen_at, Kind.ALIVE, text)
    if source is Source.PERSON:
        return Fact(receipt.seen_at, Kind.BY_HAND, text)
    return Fact(receipt.seen_at, KINDS.get(claim, Kind.ANSWERED), text)


def _closings(receipts: Iterable[Receipt]) -> Mapping[int, datetime]:
    """When each attempt was heard to be over, by a receipt of its own."""
    found: dict[int, datetime] = {}
    for receipt in receipts:
        if receipt.attempt_id is not None and receipt.claim in ENDS_AN_ATTEMPT:
            found.setdefault(receipt.attempt_id, receipt.seen_at)
    return found


def _under_way(passed_at: datetime, closed_at: datetime | None, told: OperationReport) -> Iterator[Stretch]:
    """From the gate until it was heard to be over, for as long as it may have been under way."""
    since = told.reading.since
    if closed_at is not None:
        yield Stretch(passed_at, max(passed_at, closed_at))
    elif since is None or told.state in (OperationState.SENDING, OperationState.ACCEPTED):
        yield Stretch(passed_at, None)
    elif told.state is OperationState.UNKNOWN:
        yield Stretch(passed_at, max(passed_at, since))
        yield Stretch(max(passed_at, since), None, unsure=True)
    else:
        yield Stretch(passed_at, max(passed_at, since))


def _gathered(facts: Iterable[Fact], edges: Sequence[datetime]) -> Iterator[Fact]:
    """The facts in order; what was heard again and again is one fact, on each side of an edge."""
    last: Fact | None = None
    for fact in sorted(facts, key=lambda each: each.at):
        same = last is not None and (last.kind, last.text) == (fact.kind, fact.text) and fact.kind not in SENT
        if last is not None and same and not any(last.at <= edge <= fact.at for edge in edges):
            last = replace(last, count=last.count + fact.count, until=fact.at)
            continue
        if last is not None:
            yield last
        last = fact
    if last is not None:
        yield last


def _row(told: OperationReport, facts: Sequence[Fact], stretches: Sequence[Stretch]) -> Row:
    reading = told.reading
    settled = told.state in FINAL_STATES or (told.state is OperationState.NOT_SENT and bool(stretches))
    end = []
    if settled and reading.since is not None:
        end = [Fact(reading.since, Kind.SETTLED, gettext(captions.SETTLED) % {"outcome": reading.name}, reading.tone)]
    undone = gettext(captions.UNDOES) % {"key": told.undoes.key} if told.undoes is not None else ""
    again = f"{told.key} ({told.incarnation})" if told.incarnation > 1 else told.key
    return Row(
        id=f"operation-{told.id}",
        name=told.action,
        detail=undone or again,
        outcome=reading.name,
        tone=reading.tone,
        facts=(*facts, *end),
        stretches=tuple(stretches),
    )


def _children(children: Iterable[Task], user: Any) -> Iterator[Row]:
    """One row for each of these tasks that this user may see."""
    using = database.alias()
    seen = list(permissions.seen(user, children))
    ids = [child.pk for child in seen]
    runs, decisions = defaultdict(list), defaultdict(list)
    dispatches: dict[int, list[datetime]] = defaultdict(list)
    if ids:
        for run in _runs(ids):
            runs[run.task_id].append(Stretch(run.began_at, run.ended_at))
        for decision in _decisions(ids):
            decisions[decision.task_id].append(decision)
        passes = Attempt.objects.using(using).filter(operation__task__in=ids, verb=Verb.SUBMIT)
        for pk, at in passes.order_by("-pk").values_list("operation__task", "passed_at")[:DISPATCHES]:
            dispatches[pk].append(at)
    for child in seen:
        yield Row(
            id=f"child-{child.pk}",
            name=child.title,
            outcome=gettext(sentences.TASK_NAMES[TaskState(child.state)]),
            facts=tuple(_about_the_task(decisions[child.pk])),
            stretches=tuple(runs[child.pk]),
            dispatches=tuple(dispatches[child.pk]),
            link=reverse("agentstop:timeline", args=[child.pk]),
        )
