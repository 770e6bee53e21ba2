"""What hangs on a task that is raced: children that a stop must reach or leave alone, and a second press."""

from __future__ import annotations

from collections.abc import Iterator

from agentstop import database
from agentstop.models import Task
from agentstop.runs import Run, begin
from agentstop.stop import stop


class Around:
    """A child that works for the task alone, one that works for the independent task too, and a detached one."""

    def __init__(self, raced: Run, independent: Run) -> None:
        self.raced, self.independent = raced, independent
        self.alone = begin("a child of the race", serves=[raced])
        self.shared = begin("a shared child", serves=[raced, independent])
        self.detached = begin("a detached child", serves=[raced], detached=True)

    def faults(self) -> Iterator[str]:
        """What is not as it must be once Stop was pressed; presses a second time."""
        if _task(self.alone).state == "active":
            yield "a child that works for the task alone goes on after the stop"
        kept = {"a detached child": self.detached}
        if _task(self.independent).live_run == self.independent.number:
            kept["a child that works for an independent task too"] = self.shared
        yield from (f"{name} was stopped" for name, child in kept.items() if _task(child).state != "active")
        before = _task(self.raced)
        again = stop(before.pk)
        if again.stopped or _task(self.raced).stopped_at != before.stopped_at:
            yield f"a second press stopped it once more ({again.why or 'stopped'})"


def _task(run: Run) -> Task:
    return Task.objects.using(database.alias()).get(pk=run.task_id)
