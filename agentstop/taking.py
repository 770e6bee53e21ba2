"""How a run takes what people typed: each once, while it is live, under its task's lock."""

from __future__ import annotations

from agentstop import database, wake
from agentstop.exceptions import Paused
from agentstop.folds.input_states import Became, InputFact
from agentstop.holding import facts_of, locked_task, set_waits, waiting
from agentstop.inputs import Input, as_value
from agentstop.models import Input as Row
from agentstop.models import InputEvent, Task
from agentstop.sending import in_domain
from agentstop.states import TaskState
from agentstop.stop_signal import reason_over


class TakesInputs:
    """The methods of a run by which its agent reads what people typed."""

    __slots__ = ()

    task_id: int
    number: int

    def take_input(self) -> Input | None:
        """The oldest input that waits, which no other run and no other worker gets; None where none waits.

        Raises Stopped, Superseded, Finished or Paused, as `check` does, and takes nothing then. Say `input_done` when
        the agent has acted on it: where the run ends before, a person decides whether it is sent again.
        """
        return next(iter(take(self.task_id, self.number, 1)), None)

    def take_inputs(self) -> list[Input]:
        """Everything that waits, oldest first, as `take_input`."""
        return take(self.task_id, self.number, None)

    def input_done(self, input: Input | int) -> bool:
        """The agent has acted on it. False where that was said before; ValueError where this run has not taken it.

        It counts also when the run is over by then: what was acted on is not sent again.
        """
        return done(self.task_id, self.number, input if isinstance(input, int) else input.id)

    async def atake_input(self) -> Input | None:
        """As `take_input`."""
        return await in_domain(self.take_input)

    async def atake_inputs(self) -> list[Input]:
        """As `take_inputs`."""
        return await in_domain(self.take_inputs)

    async def ainput_done(self, input: Input | int) -> bool:
        """As `input_done`."""
        return await in_domain(self.input_done, input)


def take(task_id: int, number: int, most: int | None) -> list[Input]:
    """So many of the inputs that wait, from now on this run's; all of them where `most` is None."""
    found = _take(task_id, number, most)
    if found:
        wake.announce(task_id)
    return [as_value(row) for row in found]


@database.retried
def _take(task_id: int, number: int, most: int | None) -> list[Row]:
    with database.durable():
        _require_live(locked_task(task_id), number)
        rows = list(waiting([task_id]).select_related("by")[:most])
        if rows:
            now = database.now()
            InputEvent.objects.using(database.alias()).bulk_create(
                InputEvent(input=row, became=Became.TAKEN, run=number, at=now) for row in rows
            )
            set_waits(rows, waits=False)
    return rows


def _require_live(task: Task, number: int) -> None:
    over = reason_over(task.state, task.live_run, task.last_run, number)
    if over is not None:
        raise over(f"Run {number} of task {task.pk} is over ({over.reason}): it takes no input. Go no further.")
    if task.state == TaskState.PAUSED:
        raise Paused(f"Task {task.pk} is paused. Ask for its input again after it was resumed.")


def done(task_id: int, number: int, input_id: int) -> bool:
    """The run says that it has acted on an input that it took."""
    said = _done(task_id, number, input_id)
    wake.announce(task_id)
    return said


@database.retried
def _done(task_id: int, number: int, input_id: int) -> bool:
    with database.durable():
        locked_task(task_id)
        row = Row.objects.using(database.alias()).filter(pk=input_id, task=task_id).first()
        facts = facts_of([input_id])[input_id]
        if row is None or InputFact(Became.TAKEN, number) not in facts:
            raise ValueError(f"Run {number} of task {task_id} has not taken input {input_id}.")
        if InputFact(Became.DONE, number) in facts:
            return False
        events = InputEvent.objects.using(database.alias())
        events.create(input=row, became=Became.DONE, run=number, at=database.now())
        set_waits([row], waits=False)  # it may have been released since
    return True
