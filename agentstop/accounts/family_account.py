"""What is stored of a task's family, for those who read: its children and parents, what holds it, what a stop took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Case, Count, Exists, F, IntegerField, Max, Min, OuterRef, QuerySet, Value, When

from agentstop import closing, database
from agentstop.composed import Composed
from agentstop.descendants import ALIVE
from agentstop.holds import open_causes
from agentstop.models import Decision, Operation, Run, ServingLink, Task
from agentstop.models.facts import Decided, Effect
from agentstop.states import RunState, TaskState

SHOWN = 20  # relatives that are named in a panel; pages name all


@dataclass(frozen=True, slots=True)
class KnownChild:
    """A child, and what says why it goes on or not. `served`: the last run of the parent that it works for."""

    task: Task
    served: int
    works: bool  # for the parent's live run
    holder: Task | None  # another task whose live run it works for
    failed: bool  # its last run has
    pressed: bool  # it was stopped by itself


@dataclass(frozen=True, slots=True)
class KnownParent:
    """A task that this one works for, and the last of its runs that it serves."""

    task: Task
    run: int

    @property
    def live(self) -> bool:
        return self.task.live_run == self.run


@dataclass(frozen=True, slots=True)
class KnownFamily:
    """The first of each kind; `counts` is of all children by state, `stopped_with` of all that its stop has stopped."""

    counts: Mapping[str, int] = field(default_factory=dict)
    children: tuple[KnownChild, ...] = ()
    parents: tuple[KnownParent, ...] = ()
    more_parents: int = 0
    stopped_with: int = 0
    holds: tuple[Decision, ...] = ()  # the pauses that hold it, its own and its parents'

    @property
    def reached(self) -> bool:
        """Whether a Stop of the task would stop one of the children that are named."""
        attached = (child for child in self.children if not (child.task.detached or child.task.on_its_own))
        return any(child.task.state in ALIVE and child.holder is None for child in attached)

    @property
    def relatives(self) -> tuple[Task, ...]:
        """The tasks that are named."""
        holders = (child.holder for child in self.children if child.holder is not None)
        named = (*(child.task for child in self.children), *(parent.task for parent in self.parents), *holders)
        return (*named, *(root(hold).task for hold in self.holds if not is_own(hold)))


def load(task: Task, *, related: bool = True) -> KnownFamily:
    """The family of a task, as its panel shows it. Not `related`: it is known to have no children or parents."""
    if not related:
        return KnownFamily(holds=_holds(task))
    parents = list(parents_of(task)[: SHOWN + 1])
    more = _parents(task).count() - SHOWN if len(parents) > SHOWN else 0
    return KnownFamily(
        counts=count_children(task),
        children=known_children(task, children_of(task)[:SHOWN]),
        parents=_known_parents(task, parents[:SHOWN]),
        more_parents=more,
        stopped_with=stopped_with(task).count(),
        holds=_holds(task),
    )


def count_children(task: Task) -> dict[str, int]:
    """How many children there are in each state."""
    counted = _children(task).values("state").annotate(many=Count("pk")).order_by("state")
    return dict(counted.values_list("state", "many"))


def children_of(task: Task) -> QuerySet[Task]:
    """Its children of all runs, those that are at work first."""
    last = Case(When(state__in=ALIVE, then=Value(0)), default=Value(1), output_field=IntegerField())
    return _children(task).alias(last=last).order_by("last", "pk").select_related("stop_decision")


def parents_of(task: Task) -> QuerySet[Task]:
    """The tasks that it works for, or has worked for: those with the live runs that it serves first."""
    live = ServingLink.objects.filter(child=task, parent=OuterRef("pk"), parent_run=OuterRef("live_run"))
    return _parents(task).alias(live=Exists(live)).order_by("-live", "pk")


def stopped_with(task: Task) -> QuerySet[Decision]:
    """The stops of others that a press on this task has brought about, since its last run began."""
    own = Decision.objects.using(database.alias()).filter(task=task, operation__isnull=True)
    begun = own.filter(verb=Decided.START, effect=Effect.APPLIED).aggregate(last=Max("pk"))["last"] or 0
    presses = own.filter(verb=Decided.STOP, pk__gt=begun)
    stops = Decision.objects.using(database.alias()).filter(
        cause__in=presses, verb=Decided.STOP, effect=Effect.APPLIED, operation__isnull=True
    )
    return stops.select_related("task").order_by("pk")


def open_below(task: Task) -> Mapping[int, int]:
    """How many operations may still have their effect of each task that a stop of this one has reached."""
    found = database.by_id(Operation, closing.open_below(task))
    counted = found.order_by().values("task").annotate(many=Count("pk"))
    return dict(counted.values_list("task", "many"))


def known_children(task: Task, children: Sequence[Task] | QuerySet[Task]) -> tuple[KnownChild, ...]:
    """These children of the task with what says why they go on."""
    found = list(children)
    ids = [child.pk for child in found]
    links = ServingLink.objects.using(database.alias()).filter(child__in=ids)
    served = dict(links.filter(parent=task).values_list("child").annotate(last=Max("parent_run")))
    works = set(links.filter(parent=task, parent_run=task.live_run or 0).values_list("child", flat=True))
    holders = _holders(task, links)
    failed = set(
        Run.objects.using(database.alias())
        .filter(task__in=ids, number=F("task__last_run"), state=RunState.FAILED)
        .values_list("task", flat=True)
    )
    pressed = _pressed(found)
    return tuple(
        KnownChild(child, served.get(child.pk, 0), child.pk in works, holders.get(child.pk), child.pk in failed,
                   child.pk in pressed)
        for child in found
    )  # fmt: skip


def marks(task_ids: Sequence[int]) -> Mapping[int, object]:
    """For each task that has relatives a value that is another one whenever something about them is."""
    links = ServingLink.objects.using(database.alias())
    below = links.filter(parent__in=task_ids).values("parent").annotate(
        many=Count("pk"), since=Max("child__state_since"), runs=Max("child__last_run"), last=Max("child")
    )  # fmt: skip
    above = links.filter(child__in=task_ids).values("child").annotate(
        many=Count("pk"), since=Max("parent__state_since"), runs=Max("parent__last_run")
    )  # fmt: skip
    found: dict[int, list[object]] = {}
    for row in below.values_list("parent", "many", "since", "runs", "last"):
        found.setdefault(row[0], []).append(row)
    for other in above.values_list("child", "many", "since", "runs"):
        found.setdefault(other[0], []).append(other)
    return {task: tuple(rows) for task, rows in found.items()}


def _children(task: Task) -> QuerySet[Task]:
    links = ServingLink.objects.filter(parent=task).values("child")
    return Task.objects.using(database.alias()).filter(pk__in=links)


def _parents(task: Task) -> QuerySet[Task]:
    links = ServingLink.objects.filter(child=task).values("parent")
    return Task.objects.using(database.alias()).filter(pk__in=links)


def _known_parents(task: Task, parents: Sequence[Task]) -> tuple[KnownParent, ...]:
    links = ServingLink.objects.using(database.alias()).filter(child=task, parent__in=[one.pk for one in parents])
    runs = dict(links.values_list("parent").annotate(last=Max("parent_run")))
    return tuple(KnownParent(parent, runs.get(parent.pk, 0)) for parent in parents)


def _holders(task: Task, links: QuerySet[ServingLink]) -> Mapping[int, Task]:
    """For each child one other task that needs it: the first of them."""
    others = links.filter(parent__live_run=F("parent_run")).exclude(parent=task)
    first = dict(others.values_list("child").annotate(first=Min("parent")))
    tasks = Task.objects.using(database.alias()).in_bulk(list(first.values()))
    return {child: tasks[parent] for child, parent in first.items() if parent in tasks}


def _pressed(children: Sequence[Task]) -> set[int]:
    """Those that were stopped by a press of their own, and not with those that they worked for."""
    stopped = [child for child in children if child.state == TaskState.STOPPED]
    return {child.pk for child in stopped if _is_about_itself(child, child.stop_decision)}


def _is_about_itself(child: Task, stop: Decision | None) -> bool:
    return stop is not None and stop.task_id == child.pk and stop.policy != closing.FAMILY


def _holds(task: Task) -> tuple[Decision, ...]:
    return tuple(_HOLDS.rows([task.pk], database.alias())) if task.state == TaskState.PAUSED else ()


def _holding(task_ids: Sequence[int]) -> QuerySet[Decision]:
    causes = open_causes(task_ids[0]).select_related("by", "cause__task", "cause__by")
    return causes.order_by("pk")[:SHOWN]


_HOLDS = Composed(_holding)


def root(hold: Decision) -> Decision:
    """The pause that a person or the code has decided; a task may be held by that of another one."""
    return hold.cause if hold.cause is not None else hold


def is_own(hold: Decision) -> bool:
    """Whether the task was paused by itself, and not with one that it works for."""
    return hold.policy != closing.FAMILY
