"""What a person would read of operations at this moment, as the product itself tells it."""

from __future__ import annotations

from dataclasses import dataclass

from agentstop.accounts import account
from agentstop.models import Call, Operation, Receipt, Task
from agentstop.reports import report
from agentstop.reports.operation_report import OperationReport
from agentstop.runs import Run
from agentstop.states import Cancellation, OperationState
from agentstop.words.wording import Label, Reading


@dataclass(frozen=True, slots=True)
class Observed:
    """One operation: what is stored of it, and what is read."""

    operation: Operation
    told: OperationReport
    refusal: str  # the reason of the gate's last refusal

    @property
    def state(self) -> OperationState:
        return self.told.state

    @property
    def cancellation(self) -> Cancellation:
        return self.told.cancellation

    @property
    def reading(self) -> Reading:
        return self.told.reading

    @property
    def label(self) -> Label:
        return self.told.reading.label


def observed(operation_id: int | None) -> Observed:
    """The operation as it is now."""
    assert operation_id is not None
    found = account.load(Operation.objects.get(pk=operation_id).task_id)
    assert found is not None
    known = next(known for known in found.operations if known.row.pk == operation_id)
    told = next(told for told in report.tell(found).operations if told.id == operation_id)
    return Observed(known.row, told, known.asked.refusal)


def of_key(task_id: int, key: str) -> Observed:
    """The latest incarnation of this key."""
    return observed(Operation.objects.filter(task=task_id, key=key).latest("incarnation").pk)


def claims(operation_id: int | None) -> list[tuple[str, str]]:
    """Claim and source of each receipt, in the order in which they were stored."""
    receipts = Receipt.objects.filter(operation=operation_id).order_by("pk")
    return list(receipts.values_list("claim", "source"))


def call_outcomes(operation_id: int | None) -> list[tuple[int, str]]:
    """Run and outcome of each call."""
    return list(Call.objects.filter(operation=operation_id).order_by("pk").values_list("run", "outcome"))


def task_of(run: Run) -> Task:
    return Task.objects.get(pk=run.task_id)
