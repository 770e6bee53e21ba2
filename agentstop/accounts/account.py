"""All that is stored about one task, brought up to this moment, in a number of queries that does not grow with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, Count, F, IntegerField, Max, OuterRef, Q, Subquery, Value
from django.db.models.functions import Left

from agentstop import connectors, database, frozen, question_facts, silence
from agentstop.accounts import family_account, input_account
from agentstop.accounts.family_account import KnownFamily
from agentstop.accounts.input_account import KnownInputs
from agentstop.bodies import Form
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.models import Call, Decision, Freeze, Operation, Receipt, Run, Task
from agentstop.models.facts import CallOutcome, Decided
from agentstop.providers.base import Capability
from agentstop.reconcile import OVERDUE
from agentstop.settle import apply
from agentstop.states import FINAL_CLAIMS, Claim, Folded, OperationFacts, OperationState, Source

HEAD = 2000  # characters of a result that are looked at for an address


@dataclass(frozen=True, slots=True)
class Result:
    """The beginning of what a provider said when it ended."""

    claim: Claim
    head: str
    form: Form
    whole: bool


@dataclass(frozen=True, slots=True)
class Word:
    """The last word of a person who settled it by hand, and the beginning of the reason."""

    receipt: Receipt
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
    """How far a provider says that it is, from 0 to 1, and when that was heard."""

    fraction: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """What its runs got for their requests, and the gate's last refusal (its `reason`)."""

    refusal: str = ""
    taken_by: int | None = None  # the last run that took the result in
    kept_from: int | None = None  # the last run that asked and was over


NOT_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class Known:
    """One operation with what its facts say now."""

    row: Operation
    facts: OperationFacts
    folded: Folded
    capability: Capability
    asked: Asked
    result: Result | None
    settled: Word | None
    share: Share | None  # of what was sent last

    @property
    def in_lease(self) -> bool:
        return self.folded.state is OperationState.SENDING

    @property
    def heard_at(self) -> datetime | None:
        """When the agent's process last did something about it."""
        return max((attempt.passed_at for attempt in self.facts.attempts), default=None)


@dataclass(frozen=True, slots=True)
class Account:
    """One task, its last run, its operations and its questions, as they are at `now` by the database's clock."""

    task: Task
    run: Run | None
    operations: tuple[Known, ...]
    freezes: tuple[Freeze, ...]  # that hold something of it, or are about to
    now: datetime
    questions: tuple[question_facts.Asked, ...] = ()
    inputs: KnownInputs = KnownInputs()
    family: KnownFamily = KnownFamily()

    @property
    def heard_at(self) -> datetime | None:
        """The last sign of life of the agent's process in its last run."""
        if self.run is None:
            return None
        passed = (known.heard_at for known in self.operations)
        return max([self.run.seen_at, *(at for at in passed if at is not None and at >= self.run.began_at)])

    @property
    def silent(self) -> bool:
        """Whether the agent has not been heard of for a while, and waits for no answer either."""
        heard = self.heard_at
        waiting = any(known.in_lease for known in self.operations)
        return heard is not None and not waiting and self.now - heard > silence.after()

    @property
    def overdue(self) -> int:
        """How many of its operations have waited so long that evidently nothing does the follow-up work."""
        due = (known.row.follow_up_at for known in self.operations)
        return sum(at is not None and at < self.now - OVERDUE for at in due)

    @property
    def changes_at(self) -> datetime | None:
        """When time alone will make it say something else."""
        return min(self._moments(), default=None)

    def _moments(self) -> Iterable[datetime]:
        for known in self.operations:
            due, follow_up = known.folded.due_at, known.row.follow_up_at
            if due is not None and due > self.now:
                yield due
            if follow_up is not None and follow_up + OVERDUE >= self.now:
                yield follow_up + OVERDUE
        if self.heard_at is not None and self.heard_at + silence.after() >= self.now:
            yield self.heard_at + silence.after()
        yield from (freeze.until for freeze in self.freezes if freeze.until is not None)
        yield from (asked.changes_at for asked in self.questions if asked.changes_at is not None)


def load(task_id: int) -> Account | None:
    """The account of a task, or None where there is no such task."""
    found = next(iter(load_all([task_id])), None)
    if found is None:
        return None
    return replace(found, inputs=input_account.load(task_id), family=family_account.load(found.task))


def load_all(task_ids: Sequence[int]) -> list[Account]:
    """The accounts of those of these tasks that there are, in their order, in as many queries as one takes.

    They are for lists, and without what people typed and without families.
    """
    using = database.alias()
    people = ("owner", "stopped_by", "stop_decision")
    possible = [pk for pk in task_ids if pk <= BigIntegerField.MAX_BIGINT]  # a database refuses to look for more
    tasks = Task.objects.using(using).select_related(*people).in_bulk(possible)
    last = Run.objects.using(using).filter(task__in=tasks, number=F("task__last_run"))
    runs = {run.task_id: run for run in last}
    rows = list(Operation.objects.using(using).filter(task__in=tasks).order_by("pk"))
    now = database.now()
    known: dict[int, list[Known]] = defaultdict(list)
    for each in _known(rows, now):
        known[each.row.task_id].append(each)
    freezes, asked = list(frozen.in_force(now)), question_facts.by_task(tasks, now)
    return [_account(tasks[pk], runs.get(pk), known[pk], freezes, asked[pk], now) for pk in task_ids if pk in tasks]


def _account(
    task: Task,
    run: Run | None,
    known: Sequence[Known],
    freezes: Sequence[Freeze],
    questions: Sequence[question_facts.Asked],
    now: datetime,
) -> Account:
    used = ((each.row.connector, each.row.action) for each in known)
    return Account(task, run, tuple(known), frozen.about(task, freezes, used), now, tuple(questions))


def _known(rows: Sequence[Operation], now: datetime) -> Iterable[Known]:
    facts, asked, (results, shares), settled = facts_of(rows), _asked(rows), _heads(rows), _settled(rows)
    capabilities: dict[tuple[str, str], Capability] = {}
    for row in rows:
        what = (row.connector, row.action)
        capability = capabilities.setdefault(what, connectors.capability(*what))
        folded = _bring_up(row, facts[row.pk], now)
        share = _of_the_last_attempt(shares.get(row.pk), facts[row.pk])
        heard = results.get(row.pk), settled.get(row.pk), share
        yield Known(row, facts[row.pk], folded, capability, asked.get(row.pk, NOT_ASKED), *heard)


def _bring_up(row: Operation, facts: OperationFacts, now: datetime) -> Folded:
    """Fold the row in memory. What time alone has changed has changed when it was due, not when somebody looked."""
    due, folded = row.due_at, fold(facts, now)
    if apply(row, folded, now) and due is not None:
        row.state_since = min(row.state_since, due)
    return folded


def _asked(rows: Sequence[Operation]) -> Mapping[int, Asked]:
    """Why the gate last refused each of them, and whose result each is; in one query."""
    using = database.alias()
    refused = Decision.objects.using(using).filter(operation__in=rows, verb=Decided.REFUSE).order_by()
    called = Call.objects.using(using).filter(operation__in=rows).exclude(outcome=CallOutcome.FAILED).order_by()
    asked: dict[int, Asked] = {}
    nothing = Value(None, output_field=IntegerField())
    refusals = refused.annotate(got=nothing).values_list("operation_id", "reason", "got", "pk")
    calls = called.values_list("operation_id", "outcome", "run", "pk")
    for pk, word, run, _ in sorted(refusals.union(calls, all=True), key=lambda found: found[-1]):
        was = asked.get(pk, NOT_ASKED)
        if run is None:
            asked[pk] = replace(was, refusal=word)
        elif word == CallOutcome.ACCEPTED:
            asked[pk] = replace(was, taken_by=run)
        else:
            asked[pk] = replace(was, kept_from=run)
    return asked


def _heads(rows: Sequence[Operation]) -> tuple[Mapping[int, Result], Mapping[int, Share]]:
    """The last word of each of them that ended, and how far each was heard to be.

    Only beginnings are read, since a result may be large; and one progress of each, since there may be thousands.
    """
    using = database.alias()
    words = Receipt.objects.using(using).filter(operation=OuterRef("pk"), claim=Claim.PROGRESS)
    last = words.order_by("-seen_at", "-pk").values("pk")[:1]
    asked = Operation.objects.using(using).filter(pk__in=[row.pk for row in rows]).annotate(last=Subquery(last))
    wanted = Q(claim__in=[Claim.SUCCEEDED, Claim.FAILED, Claim.REFUSED]) | Q(pk__in=asked.values("last"))
    receipts = Receipt.objects.using(using).filter(wanted, operation__in=rows).annotate(head=Left("body", HEAD + 1))
    results: dict[int, Result] = {}
    shares: dict[int, Share] = {}
    found = receipts.order_by("seen_at", "pk").values_list("operation_id", "claim", "head", "form", "seen_at")
    for pk, claim, head, form, at in found:
        if claim != Claim.PROGRESS:
            results[pk] = Result(Claim(claim), head[:HEAD], Form(form), len(head) <= HEAD)
        elif (share := _share(head)) is not None:
            shares[pk] = Share(share, at)
    return results, shares


def _settled(rows: Sequence[Operation]) -> Mapping[int, Word]:
    """The last word of a person about each of them."""
    words = Receipt.objects.using(database.alias()).filter(operation__in=rows, source=Source.PERSON)
    heads = words.filter(claim__in=FINAL_CLAIMS).select_related("by").defer("body").annotate(head=Left("body", HEAD))
    return {word.operation_id: Word(word, word.head) for word in heads.order_by("seen_at", "pk")}


def _share(body: str) -> float | None:
    try:
        found = float(body)
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None


def _of_the_last_attempt(share: Share | None, facts: OperationFacts) -> Share | None:
    """How far an earlier attempt was says nothing of a later one."""
    passed = max((attempt.passed_at for attempt in facts.attempts), default=None)
    return share if share is not None and (passed is None or share.at >= passed) else None


def marks(task_ids: Sequence[int]) -> Mapping[int, tuple[Any, ...]]:
    """For each task a value that is another one whenever something stored about it is; in nine queries for all."""
    using = database.alias()
    tasks = Task.objects.using(using).filter(pk__in=task_ids)
    runs = Run.objects.using(using).filter(task__in=task_ids).values("task")
    operations = Operation.objects.using(using).filter(task__in=task_ids).values("task")
    told = {row[0]: row for row in tasks.values_list("pk", "state", "state_since", "last_run", "owner_id", "title")}
    agents = runs.annotate(seen=Max("seen_at"), halted=Max("halted_at")).values_list("task", "seen", "halted")
    folds = operations.annotate(many=Count("pk"), last=Max("folded_at")).values_list("task", "many", "last")
    seen, folded = ({row[0]: row for row in rows} for rows in (agents, folds))
    others = [part.marks(task_ids) for part in (input_account, question_facts, family_account)]
    freezes = tuple(frozen.in_force(database.now()).values_list("pk", "in_force_at"))
    parts = [seen, folded, *others]
    return {pk: (row, *(part.get(pk) for part in parts), freezes) for pk, row in told.items()}
