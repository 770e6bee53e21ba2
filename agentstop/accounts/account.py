"""What is stored about one task, brought up to this moment, in a number of queries that does not grow with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, Count, Max

from agentstop import connectors, database, frozen, question_facts, silence
from agentstop.accounts import family_account, heard, input_account, presence, selection
from agentstop.accounts.family_account import KnownFamily
from agentstop.accounts.heard import NOT_ASKED, Asked, Result, Share, Word
from agentstop.accounts.input_account import KnownInputs
from agentstop.accounts.presence import Presence, TaskRow
from agentstop.accounts.selection import Choice, Rest
from agentstop.facts import facts_of
from agentstop.folds.folding import fold
from agentstop.models import Freeze, Operation, Run, Task
from agentstop.providers.base import Capability
from agentstop.reconcile import OVERDUE
from agentstop.settle import apply
from agentstop.states import Folded, OperationFacts, OperationState, RunState, TaskState


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
    """One task, its last run, its operations and its questions, as they are at `now` by the database's clock.

    `rest`: the operations that were not chosen to be read one by one.
    """

    task: Task
    run: Run | None
    operations: tuple[Known, ...]
    freezes: tuple[Freeze, ...]  # that hold something of it, or are about to
    now: datetime
    questions: tuple[question_facts.Asked, ...] = ()
    inputs: KnownInputs = KnownInputs()
    family: KnownFamily = KnownFamily()
    rest: Rest = selection.NOTHING
    there: Presence = presence.NOTHING

    @property
    def heard_at(self) -> datetime | None:
        """The last sign of life of the agent's process in its last run."""
        if self.run is None:
            return None
        passed = (self.rest.heard_at, *(known.heard_at for known in self.operations))
        return max([self.run.seen_at, *(at for at in passed if at is not None and at >= self.run.began_at)])

    @property
    def may_come_back(self) -> bool:
        """Whether its last run has failed, and nobody has pressed Stop since: its job may be delivered again."""
        failed = self.run is not None and self.run.state == RunState.FAILED
        return failed and self.task.state == TaskState.FINISHED and self.task.late_stop_id is None

    @property
    def silent(self) -> bool:
        """Whether the agent has not been heard of for a while, and waits for no answer either."""
        heard = self.heard_at
        waiting = any(known.in_lease for known in self.operations) or self.rest.waits
        return heard is not None and not waiting and self.now - heard > silence.after()

    @property
    def overdue(self) -> int:
        """How many of its operations have waited so long that evidently nothing does the follow-up work."""
        due = (known.row.follow_up_at for known in self.operations)
        return sum(at is not None and at < self.now - OVERDUE for at in due) + self.rest.overdue

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
        yield from self.rest.moments
        if self.heard_at is not None and self.heard_at + silence.after() >= self.now:
            yield self.heard_at + silence.after()
        yield from (freeze.until for freeze in self.freezes if freeze.until is not None)
        yield from (asked.changes_at for asked in self.questions if asked.changes_at is not None)


def load(task_id: int, choice: Choice = selection.WHOLE) -> Account | None:
    """The account of a task, or None where there is no such task."""
    return next(iter(load_whole([task_id], choice)), None)


def load_whole(task_ids: Sequence[int], choice: Choice = selection.WHOLE) -> list[Account]:
    """The accounts of those of these tasks that there are, with what people typed for them and their families."""
    found = load_all(task_ids, choice)
    inputs = input_account.load([each.task.pk for each in found if each.there.inputs])
    return [
        replace(
            each,
            inputs=inputs.get(each.task.pk, each.inputs),
            family=family_account.load(each.task, related=each.there.links),
        )
        for each in found
    ]


def load_all(task_ids: Sequence[int], choice: Choice = selection.WHOLE) -> list[Account]:
    """The accounts of those of these tasks that there are, in their order, in as many queries as one takes.

    They are for lists, and without what people typed and without families.
    """
    rows = presence.tasks(_ids(task_ids))
    if not rows:
        return []
    by_id, now = {row.task.pk: row for row in rows}, presence.time_of(rows)
    at_work = {pk: row for pk, row in by_id.items() if row.there.operations}
    known: dict[int, list[Known]] = defaultdict(list)
    for each in _known(selection.rows(list(at_work), choice, now), now):
        known[each.row.task_id].append(each)
    rest = _rest(at_work, known, choice, now)
    freezes = list(frozen.in_force(now)) if any(row.there.freezes for row in rows) else []
    asked = question_facts.by_task({row.task.pk: row.task for row in rows if row.there.questions}, now)
    return [
        _account(row, known[pk], freezes, asked.get(pk, ()), now, rest.get(pk, selection.NOTHING))
        for pk, row in ((pk, by_id[pk]) for pk in task_ids if pk in by_id)
    ]


def _ids(task_ids: Sequence[int]) -> list[int]:
    """Without what is no id: an address may name any number, and a database no larger ones."""
    return [pk for pk in task_ids if pk <= BigIntegerField.MAX_BIGINT]


def _rest(
    tasks: Mapping[int, TaskRow], known: Mapping[int, Sequence[Known]], choice: Choice, now: datetime
) -> Mapping[int, Rest]:
    read = {pk: [each.row for each in known.get(pk, ())] for pk in tasks}
    runs = {pk: row.run for pk, row in tasks.items() if not selection.is_all(read[pk], choice)}
    seen = {pk: run.seen_at if run is not None else now for pk, run in runs.items()}
    return selection.rest(seen, [row for pk in seen for row in read[pk]], now, OVERDUE) if seen else {}


def _account(
    row: TaskRow,
    known: Sequence[Known],
    freezes: Sequence[Freeze],
    questions: Sequence[question_facts.Asked],
    now: datetime,
    rest: Rest,
) -> Account:
    used = {(each.row.connector, each.row.action) for each in known} | rest.used
    held = frozen.about(row.task, freezes, used)
    return Account(row.task, row.run, tuple(known), held, now, tuple(questions), rest=rest, there=row.there)


def _known(rows: Sequence[Operation], now: datetime) -> Iterable[Known]:
    facts, asked, (results, shares, settled) = facts_of(rows), heard.asked(rows), heard.heads(rows)
    capabilities: dict[tuple[str, str], Capability] = {}
    for row in rows:
        what = (row.connector, row.action)
        capability = capabilities.setdefault(what, connectors.capability(*what))
        folded = _bring_up(row, facts[row.pk], now)
        share = heard.of_the_last_attempt(shares.get(row.pk), facts[row.pk])
        words = results.get(row.pk), settled.get(row.pk), share
        yield Known(row, facts[row.pk], folded, capability, asked.get(row.pk, NOT_ASKED), *words)


def _bring_up(row: Operation, facts: OperationFacts, now: datetime) -> Folded:
    """Fold the row in memory. What time alone has changed has changed when it was due, not when somebody looked."""
    due, folded = row.due_at, fold(facts, now)
    if apply(row, folded, now) and due is not None:
        row.state_since = min(row.state_since, due)
    return folded


def marks(task_ids: Sequence[int]) -> Mapping[int, tuple[Any, ...]]:
    """For each task a value that is another one whenever something stored about it is; in nine queries for all."""
    using = database.alias()
    task_ids = _ids(task_ids)
    tasks = Task.objects.using(using).filter(pk__in=task_ids)
    runs = Run.objects.using(using).filter(task__in=task_ids).values("task")
    operations = Operation.objects.using(using).filter(task__in=task_ids).values("task")
    told = {
        row[0]: row
        for row in tasks.values_list("pk", "state", "state_since", "last_run", "owner_id", "title", "late_stop")
    }
    agents = runs.annotate(seen=Max("seen_at"), halted=Max("halted_at")).values_list("task", "seen", "halted")
    folds = operations.annotate(many=Count("pk"), last=Max("folded_at")).values_list("task", "many", "last")
    seen, folded = ({row[0]: row for row in rows} for rows in (agents, folds))
    others = [part.marks(task_ids) for part in (input_account, question_facts, family_account)]
    freezes = tuple(frozen.in_force(database.now()).values_list("pk", "in_force_at"))
    parts = [seen, folded, *others]
    return {pk: (row, *(part.get(pk) for part in parts), freezes) for pk, row in told.items()}
