"""What a person would read of operations at this moment, folded anew from their facts and worded by the product."""

from __future__ import annotations

from dataclasses import dataclass

from agentstop import connectors, database
from agentstop.facts import facts_of
from agentstop.folding import fold
from agentstop.models import Call, Decision, Operation, Receipt, Task
from agentstop.models.facts import Decided
from agentstop.runs import Run
from agentstop.states import Cancellation, OperationFacts, OperationState, TaskState
from agentstop.wording import Label, Reading, Situation, read


@dataclass(frozen=True, slots=True)
class Observed:
    """One operation: what is stored of it, and what is read."""

    operation: Operation
    state: OperationState
    cancellation: Cancellation
    refusal: str  # the reason of the gate's last refusal
    reading: Reading

    @property
    def label(self) -> Label:
        return self.reading.label


def observed(operation_id: int | None) -> Observed:
    """The operation as it is now; its stored state must be what the facts gave when it was stored."""
    assert operation_id is not None
    operation, facts = _at_one_moment(operation_id)
    now = database.now()
    then, folded = fold(facts, operation.folded_at), fold(facts, now)
    assert (then.state, then.cancellation) == (operation.state, operation.cancellation), "stored is what facts gave"
    task = Task.objects.get(pk=operation.task_id)
    refusals = Decision.objects.filter(operation=operation, verb=Decided.REFUSE).order_by("pk")
    refusal = refusals.values_list("reason", flat=True).last() or ""
    situation = Situation(
        state=folded.state,
        task=TaskState(task.state),
        cancellation=folded.cancellation,
        in_lease=operation.lease_until is not None and operation.lease_until > now,
        stopped_at=task.stopped_at,
        since=operation.state_since,
        decided_by=folded.decided_by,
        contradictory=folded.contradictory,
        doubled=folded.doubled,
        refusal=refusal,
        has_ref=bool(operation.ref),
        capability=connectors.capability(operation.connector, operation.action),
    )
    return Observed(operation, folded.state, folded.cancellation, refusal, read(situation))


def _at_one_moment(operation_id: int) -> tuple[Operation, OperationFacts]:
    """The row and its facts, read again where something was stored in between."""
    operation = Operation.objects.get(pk=operation_id)
    while True:
        facts, before = facts_of([operation])[operation.pk], operation.folded_at
        operation = Operation.objects.get(pk=operation_id)
        if operation.folded_at == before:
            return operation, facts


def of_key(task_id: int, key: str) -> Observed:
    """The latest incarnation of this key."""
    return observed(Operation.objects.filter(task=task_id, key=key).latest("incarnation").pk)


def label_of_key(task_id: int, key: str) -> Label:
    return of_key(task_id, key).label


def claims(operation_id: int | None) -> list[tuple[str, str]]:
    """Claim and source of each receipt, in the order in which they were stored."""
    receipts = Receipt.objects.filter(operation=operation_id).order_by("pk")
    return list(receipts.values_list("claim", "source"))


def call_outcomes(operation_id: int | None) -> list[tuple[int, str]]:
    """Run and outcome of each call."""
    return list(Call.objects.filter(operation=operation_id).order_by("pk").values_list("run", "outcome"))


def task_of(run: Run) -> Task:
    return Task.objects.get(pk=run.task_id)
