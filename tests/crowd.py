"""A task with very many operations, stored at once: most of them settled long ago, the last ones as asked for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from agentstop import database
from agentstop.models import Attempt, Operation, Receipt, Task
from agentstop.runs import begin
from agentstop.settle import refold
from agentstop.states import Claim, OperationState, Source, Verb

AGO = timedelta(hours=2)
LEASE = timedelta(seconds=20)
LASTING = timedelta(days=30)
BATCH = 2_000

# What became of operations: the provider's word about the only attempt; None: nobody has heard of it.
WORDS = {"succeeded": Claim.SUCCEEDED, "failed": Claim.FAILED, "accepted": Claim.ACCEPTED, "unknown": None}


def crowd(owner: Any, **many: int) -> Task:
    """A running task; `many`: how many operations of each of WORDS, or `prepared`, in this order, oldest first."""
    run = begin("A very long task", owner=owner)
    for kind, number in many.items():
        add(run.task_id, kind, number)
    return Task.objects.get(pk=run.task_id)


def very_many(owner: Any, _: object) -> Task:
    """Ten thousand, ten of them of unknown outcome."""
    return crowd(owner, succeeded=9_900, failed=90, unknown=10)


def one_more(owner: Any, _: object) -> Task:
    """The newest task of theirs gets another one."""
    task = Task.objects.filter(owner=owner).latest("pk")
    _add(task.pk, "prepared", ["one more"])
    return task


def add(task_id: int, kind: str, number: int) -> list[int]:
    """Their ids."""
    before = Operation.objects.filter(task=task_id).count()
    added: list[int] = []
    for start in range(0, number, BATCH):
        names = [f"{kind}:{before + each}" for each in range(start, min(start + BATCH, number))]
        added += _add(task_id, kind, names)
    return added


def _add(task_id: int, kind: str, keys: list[str]) -> list[int]:
    now = database.now()
    made = Operation.objects.bulk_create([_operation(task_id, key, now - AGO) for key in keys])
    if kind != "prepared":
        tries = Attempt.objects.bulk_create([_attempt(operation, now - AGO) for operation in made])
        claim = WORDS[kind]
        if claim is not None:
            Receipt.objects.bulk_create([_receipt(each, claim, now - AGO) for each in tries])
        _set_states(made, now)
    return [operation.pk for operation in made]


def _set_states(made: list[Operation], now: datetime) -> None:
    """All are alike: one is folded, and the others get what it has."""
    refold(made[:1], now)
    first = made[0]
    columns = ("state", "state_since", "cancellation", "folded_at", "due_at", "follow_up_at")
    Operation.objects.filter(pk__in=[each.pk for each in made]).update(
        **{each: getattr(first, each) for each in columns}
    )


def _operation(task_id: int, key: str, at: datetime) -> Operation:
    return Operation(
        task_id=task_id,
        key=key,
        connector="tools",
        action="chat.post",
        digest="",
        state=OperationState.PREPARED,
        state_since=at,
        folded_at=at,
        created_at=at,
    )


def _attempt(operation: Operation, at: datetime) -> Attempt:
    return Attempt(
        operation=operation,
        verb=Verb.SUBMIT,
        number=1,
        run=1,
        passed_at=at,
        lease_until=at + LEASE,
        settling=timedelta(0),
        max_age=LASTING,
    )


def _receipt(attempt: Attempt, claim: Claim, at: datetime) -> Receipt:
    return Receipt(
        operation=attempt.operation, attempt=attempt, claim=claim, source=Source.PROVIDER, asked_at=at, seen_at=at
    )
