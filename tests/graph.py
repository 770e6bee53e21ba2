"""A family as a graph that is read whole, and what the rules say of it, task by task: a second way to find it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from agentstop import holds
from agentstop.models import Run, ServingLink, Task

ALIVE = {"active", "paused"}
ENDED = {"finished", "failed"}


@dataclass(frozen=True)
class Graph:
    """All tasks, the states of all runs, the runs that each task serves, and the pauses that are open."""

    tasks: Mapping[int, Task]
    runs: Mapping[tuple[int, int], str]
    links: Mapping[int, Set[tuple[int, int]]]
    own: Mapping[int, Set[int]]
    handed: Mapping[int, Set[int]]

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
    tasks = {task.pk: task for task in Task.objects.all()}
    links, own, handed = (defaultdict[int, set[Any]](set) for _ in range(3))
    for child, parent, number in ServingLink.objects.values_list("child", "parent", "parent_run"):
        links[child].add((parent, number))
    for cause in holds._open_causes([pk for pk, one in tasks.items() if one.state in ALIVE]):
        (handed if cause.policy == "family" else own)[cause.task_id].add(cause.cause_id or cause.pk)
    runs = {(task, number): state for task, number, state in Run.objects.values_list("task", "number", "state")}
    return Graph(tasks, runs, links, own, handed)


def held(graph: Graph, task: int, let: Set[int]) -> set[int]:
    """The pauses by which others hold this task, by the rule alone. `let`: who needs no parent any more."""
    above = [graph.own[parent] | held(graph, parent, let) for parent in graph.works_for(task)]
    return set[int]().union(*above) if task not in let and all(above) else set()


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
