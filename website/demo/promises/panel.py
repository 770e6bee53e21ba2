"""What a person reads on a task's page, as values."""

from __future__ import annotations

from dataclasses import dataclass

from agentstop.panel import prefix
from website.demo.promises.tree import Node


class Broken(Exception):
    """A promise is broken, or what was expected was never seen."""


class TooSlow(Broken):
    """This machine was too slow for what was to be shown: nothing is known of the promise."""


@dataclass(frozen=True, slots=True)
class OperationSeen:
    """One operation as it stands there."""

    action: str
    key: str
    label: str
    evidence: str
    told: str  # all of it

    @property
    def step(self) -> str:
        return self.key.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """One panel as it stands there. Equal panels tell the same."""

    state: str
    who: str
    agent: str
    line: str
    operations: tuple[OperationSeen, ...]

    def operation(self, step: str) -> OperationSeen | None:
        """The last operation of a step."""
        return next((each for each in reversed(self.operations) if each.step == step), None)

    def label(self, step: str) -> str:
        found = self.operation(step)
        return found.label if found else ""

    def evidence(self, step: str) -> str:
        found = self.operation(step)
        return found.evidence if found else ""

    def told(self, step: str) -> str:
        found = self.operation(step)
        return found.told if found else ""

    def __str__(self) -> str:
        labels = ", ".join(f"{each.step}: {each.label}" for each in self.operations)
        return f"{self.state}; {self.agent}; {labels or 'no operations'}"


def read(page: Node, task: int) -> Seen:
    """The panel of this task on a page."""
    begin = prefix(task)
    parts = {name: page.by_id(f"{begin}-{name}") for name in ("state", "who", "agent", "line", "operations")}
    missing = [name for name, node in parts.items() if node is None]
    if missing:
        raise Broken(f"the page of task {task} has no {', '.join(missing)}")
    found = {name: node for name, node in parts.items() if node is not None}
    rows = [_operation(node) for node in found["operations"] if node.tag == "li"]
    return Seen(
        state=found["state"].get("data-state"),
        who=found["who"].text,
        agent=found["agent"].text,
        line=found["line"].text,
        operations=tuple(rows),
    )


def _operation(row: Node) -> OperationSeen:
    names = [node.text for node in row if node.tag == "bdi"]
    label = row.by_class("agentstop-label")
    strong = label.by_tag("strong") if label else None
    evidence = row.by_class("agentstop-evidence")
    if strong is None or len(names) < 2:
        raise Broken(f"an operation that is not named or has no label: {row.text}")
    return OperationSeen(
        action=names[0], key=names[1], label=strong.text, evidence=evidence.text if evidence else "", told=row.text
    )
