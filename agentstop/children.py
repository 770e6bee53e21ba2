"""How a parent's run waits for a child: until it has ended, was stopped by itself, or the parent's own run is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentstop import database, liveness
from agentstop.exceptions import ChildStopped, TaskNotFound
from agentstop.models import Run, ServingLink, Task
from agentstop.sending import in_domain
from agentstop.spawning import Served
from agentstop.states import RunState, TaskState
from agentstop.waiting import auntil, until


class WaitsForChildren:
    """The methods of a run by which it waits for its children."""

    __slots__ = ()

    task_id: int
    number: int

    def wait_for(self, child: Served | Task | int, *, timeout: float | None = None) -> RunState:
        """Wait until a child of this run has ended: RunState.FINISHED or FAILED. Its restarts are waited for, too.

        Raises ChildStopped where the child was stopped by itself; Stopped, Superseded or Finished where this run is
        over, whatever became of the child; TimeoutError after `timeout` seconds.
        """
        child_id, number = _named(self, child)
        return until(partial(_ended, self, child_id, number), child_id, self.task_id, timeout=timeout)

    async def await_for(self, child: Served | Task | int, *, timeout: float | None = None) -> RunState:
        """As `wait_for`; no thread waits meanwhile."""
        child_id, number = await in_domain(_named, self, child)
        return await auntil(partial(_ended, self, child_id, number), child_id, self.task_id, timeout=timeout)


def look(parent: Served, child_id: int) -> Callable[[], RunState | None]:
    """For one who comes back: how that child of a run has ended by now, or None. Raises as `wait_for` does."""
    named = _named(parent, child_id)
    return partial(_ended, parent, *named)


def _named(parent: Served, child: Served | Task | int) -> tuple[int, int]:
    """The child's task, and the run that is waited for: of a task, its last one; 0 where none has begun."""
    child_id = child if isinstance(child, int) else child.pk if isinstance(child, Task) else child.task_id
    task = Task.objects.using(database.alias()).filter(pk=child_id).first()
    if task is None:
        raise TaskNotFound(f"There is no task {child_id} to wait for.")
    links = ServingLink.objects.using(database.alias()).filter(child=child_id, parent=parent.task_id)
    if not links.filter(parent_run=parent.number).exists():
        raise ValueError(
            f"Task {child_id} does not serve run {parent.number} of task {parent.task_id}. Wait for a child that was "
            "begun with serves=[run], or link it with serve(task, run)."
        )
    number = task.last_run if isinstance(child, Task | int) else child.number
    if number > task.last_run:
        raise ValueError(f"Task {child_id} has no run {number}. Pass the run that begin() gave.")
    return child_id, number


def _ended(parent: Served, child_id: int, number: int) -> RunState | None:
    """What became of the child, or None; raises where the parent's run is over or the child was stopped alone."""
    state = _state(child_id, number)
    # Read after the child's: where one commit has stopped both, it is the parent's own end that counts.
    # A pause ends no run: what it may not do now it is told when it does it.
    liveness.still_live(parent.task_id, parent.number)
    if state is RunState.STOPPED:
        error = ChildStopped(f"Task {child_id}, which run {parent.number} waits for, was stopped. Go on without it.")
        error.child = child_id
        raise error
    return state


def _state(child_id: int, number: int) -> RunState | None:
    """How the run has ended, or the one that has taken over from it; None while one is live or none has begun."""
    runs = Run.objects.using(database.alias()).filter(task=child_id, number__gte=number).order_by("number")
    for state in runs.values_list("state", flat=True):
        if state != RunState.SUPERSEDED:
            return None if state == RunState.LIVE else RunState(state)
    stopped = Task.objects.using(database.alias()).filter(pk=child_id, state=TaskState.STOPPED)
    return RunState.STOPPED if stopped.exists() else None
