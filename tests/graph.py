"""A family as a graph that is read whole, and what the rules say of it, task by task: a second way to find it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass

from agentstop.holds import open_causes
from agentstop.models import Run, ServingLink, Task

ALIVE = {"active", "paused"}
ENDED = {"finished", "failed"}


@dataclass(frozen=True)
class Graph:
    """All tasks, the states of all runs, and the runs that each task serves."""

    tasks: Mapping[int, Task]
    runs: Mapping[tuple[int, int], str]
    links: Mapping[int, Set[tuple[int, int]]]

    def works_for(self, task: int, but: Set[tuple[int, int]] = frozenset()) -> set[int]:
        """The tasks whose live runs it works for: those that it serves, or that what has ended by itself works for."""
        found = set[int]()
        for parent, number in self.links.get(task, set()) - but:
            one = self.tasks[parent]
            if one.live_run == number or (self.runs[parent, number] in ENDED and one.live_run is not None):
                found.add(parent)
            elif self.runs[parent, number] in ENDED and not (one.detached or one.on_its_own):
                found |= self.works_for(parent, but)
        return found

    def below(self, task: int) -> set[int]:
        """All that have ever served it, directly or through others."""
        children = {child for child, links in self.links.items() if task in {parent for parent, _ in links}}
        return children.union(*map(self.below, children)) if children else set()

    def alive(self, task: int) -> bool:
        return self.tasks[task].state in ALIVE

    def goes_its_own_way(self, task: int) -> bool:
        return self.tasks[task].detached or self.tasks[task].on_its_own


def read() -> Graph:
    links = defaultdict[int, set[tuple[int, int]]](set)
    for child, parent, number in ServingLink.objects.values_list("child", "parent", "parent_run"):
        links[child].add((parent, number))
    runs = {(task, number): state for task, number, state in Run.objects.values_list("task", "number", "state")}
    return Graph({task.pk: task for task in Task.objects.all()}, runs, links)


def held(graph: Graph, let: Set[int]) -> set[int]:
    """The tasks that are paused, by the rule alone. `let`: those that go their own way and need no parent any more."""

    def is_held(task: int) -> bool:
        if open_causes(task).exclude(policy="family").exists():
            return True
        above = graph.works_for(task)
        return task not in let and bool(above) and all(map(is_held, above))

    return {task for task in graph.tasks if graph.alive(task) and is_held(task)}


def holding(graph: Graph, task: int) -> set[int]:
    """The pauses of others that hold this task: those of all that it works for."""
    found = set[int]()
    for parent in graph.works_for(task):
        own = open_causes(parent).exclude(policy="family")
        found |= {*own.values_list("pk", flat=True)} | {
            cause or 0 for cause in open_causes(parent).filter(policy="family").values_list("cause", flat=True)
        }
    return found


def to_be_stopped(graph: Graph, task: int) -> set[int]:
    """What a press on the task has to take with it: what hangs on it, but for what needs a live run outside of that."""

    def hangs(one: int) -> bool:
        return (
            not graph.goes_its_own_way(one)
            and graph.tasks[one].state != "stopped"
            and any(
                parent == task or (hangs(parent) and (number == graph.tasks[parent].last_run or ended(parent, number)))
                for parent, number in graph.links.get(one, set())
            )
        )

    def ended(parent: int, number: int) -> bool:
        return graph.runs[parent, number] in ENDED

    hanging = {one for one in graph.tasks if graph.alive(one) and one != task and hangs(one)}
    served = {(task, number) for number in range(graph.tasks[task].last_run + 1)}

    def is_needed(one: int) -> bool:
        above = graph.works_for(one, served)
        return any(parent not in hanging or is_needed(parent) for parent in above)

    return {one for one in hanging if not is_needed(one)}
