"""What holds a task: its own pauses, and those of all that it works for. One rule, applied wherever any of it changes.

A task goes on while at least one live run that it works for is not held; where all are, it is held by what holds them.
What is written down are decisions: a pause handed down for each cause that holds a task, and a resume for each of them
that no longer does. All within a transaction that holds the family's lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter

from django.db.models import F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agentstop import database, descendants, signals, storing, telling
from agentstop.closing import FAMILY
from agentstop.models import Decision
from agentstop.models.facts import Decided, Effect
from agentstop.states import TaskState

Causes = frozenset[int]
NOTHING: Causes = frozenset()


def open_causes(task_id: int) -> QuerySet[Decision]:
    """The decisions that hold this task now: its own, and those of tasks that it works for."""
    return _open_causes([task_id])


def apply(tasks: Sequence[int], told: Decision | None, now: datetime, *, asked: Collection[int] = ()) -> list[int]:
    """Hold and let go what the rule says of these tasks; the ids of those that are paused now, or go on.

    `tasks`: live ones, and with each all live ones below it. `told`: what was decided that has changed something.
    `asked`: those that a run has just begun; a detached one needs no parent only once it is there.
    """
    works_for = _works_for(tasks)
    found = _written({*tasks, *_live_parents(works_for)}, told)
    if not found.own and not found.paused:
        return []
    wanted = _wanted(tasks, works_for, found, asked)
    _hand_down(wanted, found, now)
    _lift(wanted, found, told, now)
    held = {task for task in tasks if found.own[task] or wanted[task]}
    paused = sorted(held - found.paused)
    freed = sorted(found.paused.intersection(tasks) - held)
    _set_state(paused, TaskState.PAUSED, now)
    _set_state(freed, TaskState.ACTIVE, now)
    _tell(paused, freed, told)
    return [*paused, *freed]


WorksFor = Mapping[int, Sequence[tuple[int, bool]]]


def _works_for(tasks: Sequence[int]) -> WorksFor:
    """Whom each of the tasks works for, and whether by a live run; where it is none, whom that one works for, too."""
    found = defaultdict[int, list[tuple[int, bool]]](list)
    for child, parent, live in descendants.served(tasks):
        found[child].append((parent, live))
    return found


def _live_parents(works_for: WorksFor) -> set[int]:
    return {parent for needs in works_for.values() for parent, live in needs if live}


@dataclass(frozen=True, slots=True)
class _Written:
    """What the decisions so far say: who is paused, by which causes of its own, and by which of others, handed down."""

    paused: set[int]
    own: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    handed: defaultdict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))  # cause: decision

    def holding(self, task: int) -> Causes:
        return frozenset((*self.own[task], *self.handed[task]))


def _written(tasks: Collection[int], told: Decision | None) -> _Written:
    rows = descendants.those(sorted(tasks)).filter(state=TaskState.PAUSED)
    found = _Written(set(rows.values_list("pk", flat=True)))
    for batch in database.batches(sorted(found.paused)):
        for pk, task, policy, cause in _open_causes(batch).values_list("pk", "task", "policy", "cause"):
            if policy == FAMILY:
                found.handed[task][cause or 0] = pk
            else:
                found.own[task].add(pk)
    if told is not None and told.verb == Decided.PAUSE:
        found.own[told.task_id].add(told.pk)
    return found


@dataclass(frozen=True, slots=True)
class _Above:
    """Of the live runs that a task works for: whether there is any that is not held, and what holds the others."""

    free: bool = False
    causes: Causes = NOTHING

    def __or__(self, other: _Above) -> _Above:
        causes = self.causes if other.causes <= self.causes else self.causes | other.causes
        return _Above(self.free or other.free, causes)


def _wanted(tasks: Sequence[int], works_for: WorksFor, found: _Written, asked: Collection[int]) -> dict[int, Causes]:
    """For each of the tasks the causes of others that are to hold it, those above before those below."""
    wanted = dict.fromkeys(tasks, NOTHING)
    free, above = _going_their_own_way(tasks) - {*asked, *found.handed}, dict[int, _Above]()
    for task in TopologicalSorter({task: [one for one, _ in works_for[task]] for task in [*works_for]}).static_order():
        one = _Above()
        for parent, live in works_for.get(task, ()):
            one |= _run_of(parent, wanted, found) if live else above[parent]
        above[task] = one
        if task in wanted and task not in free and not one.free:
            wanted[task] = one.causes
    return wanted


def _run_of(task: int, wanted: Mapping[int, Causes], found: _Written) -> _Above:
    """What holds the live run of this task: where it is not one of those that are asked about, that is written down."""
    causes = wanted[task] | frozenset(found.own[task]) if task in wanted else found.holding(task)
    return _Above(free=not causes, causes=causes)


def _going_their_own_way(tasks: Sequence[int]) -> set[int]:
    rows = descendants.those(tasks).filter(Q(detached=True) | Q(on_its_own=True))
    return set(rows.values_list("pk", flat=True))


def _hand_down(wanted: Mapping[int, Causes], found: _Written, now: datetime) -> None:
    """A pause for each task and each cause that is to hold it and does not yet."""
    held = defaultdict[int, list[int]](list)
    for task, causes in wanted.items():
        for cause in causes - found.handed[task].keys():
            held[cause].append(task)
    for one in Decision.objects.using(database.alias()).filter(pk__in=held).order_by("pk"):
        pause = Decision(verb=Decided.PAUSE, by=one.by, policy=FAMILY, reason=one.reason, cause=one, at=now)
        storing.add_for_each(descendants.those(held[one.pk]), pause, {"task_id": "id", "run": "live_run"})


def _lift(wanted: Mapping[int, Causes], found: _Written, told: Decision | None, now: datetime) -> None:
    """A resume for each pause that was handed down and holds no longer."""
    lifted = [pk for task, causes in wanted.items() for cause, pk in found.handed[task].items() if cause not in causes]
    rows = Decision.objects.using(database.alias()).annotate(live_run=F("task__live_run"))
    resume = Decision(verb=Decided.RESUME, policy=FAMILY, at=now)
    if told is not None:
        resume.by, resume.reason = told.by, told.reason
    columns = {"task_id": "task_id", "run": "live_run", "cause_id": "id"}
    if lifted:
        storing.add_for_each(rows.filter(pk__in=descendants.named(lifted)), resume, columns)


def _set_state(tasks: Sequence[int], state: TaskState, now: datetime) -> None:
    rows = descendants.those(tasks)
    if tasks:
        list(rows.order_by("pk").select_for_update(no_key=True).values_list("pk"))
        rows.update(state=state, state_since=now)


def _tell(paused: Sequence[int], freed: Sequence[int], told: Decision | None) -> None:
    """Of who is held the pause that came first is told; of who goes on what was decided, or what was handed down."""
    if paused:
        first = Decision.objects.using(database.alias()).filter(pk__in=_open_causes(paused[:1]).values("cause"))
        cause = told if told is not None and told.verb == Decided.PAUSE else first.earliest("pk")
        telling.of_tasks(signals.tasks_paused, tuple(paused), cause)
    if freed:
        last = Decision.objects.using(database.alias()).filter(task=freed[0], verb=Decided.RESUME)
        telling.of_tasks(signals.tasks_resumed, tuple(freed), told or last.latest("pk"))


def _open_causes(task_ids: Sequence[int]) -> QuerySet[Decision]:
    decisions = Decision.objects.using(database.alias()).filter(operation__isnull=True)
    begun = _last(decisions.filter(task=OuterRef("task"), verb=Decided.START, effect=Effect.APPLIED), "task")
    lifted = _last(decisions.filter(cause=OuterRef("pk"), verb=Decided.RESUME), "cause")
    pauses = decisions.filter(task__in=task_ids, verb=Decided.PAUSE, effect=Effect.APPLIED, pk__gt=Coalesce(begun, 0))
    return pauses.alias(lifted=lifted).filter(lifted__isnull=True)


def _last(decisions: QuerySet[Decision], of: str) -> Subquery:
    """The newest of the decisions about each; as a sum, or PostgreSQL looks through the whole table for each."""
    return Subquery(decisions.order_by().values(of).annotate(last=Max(F("pk") + 0)).values("last"))
