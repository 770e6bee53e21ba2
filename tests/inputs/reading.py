"""What is stored of inputs, and what their facts say."""

from __future__ import annotations

from agentstop import holding
from agentstop.folds.input_states import FoldedInput, InputState, Sent, fold_input
from agentstop.models import Input, InputEvent, Task
from agentstop.verify import differences


def folded(input_id: int) -> FoldedInput:
    task = Task.objects.get(inputs=input_id)
    return fold_input(holding.facts_of([input_id])[input_id], task.live_run)


def states(task_id: int) -> list[InputState]:
    """Of all inputs of the task, in the order in which they were typed."""
    return [folded(pk).state for pk in Input.objects.filter(task=task_id).order_by("pk").values_list("pk", flat=True)]


def sent(task_id: int) -> list[Sent]:
    return [folded(pk).sent for pk in Input.objects.filter(task=task_id).order_by("pk").values_list("pk", flat=True)]


def events(input_id: int) -> list[tuple[str, int | None]]:
    return list(InputEvent.objects.filter(input=input_id).order_by("pk").values_list("became", "run"))


def assert_verified() -> None:
    assert list(differences()) == []
