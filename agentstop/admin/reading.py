"""The words by which an operation's owner reads it, so that the desk and the page say the same."""

from __future__ import annotations

from agentstop.models import Operation
from agentstop.states import Cancellation, OperationState, TaskState
from agentstop.wording import Situation, read


def reads_as(operation: Operation) -> str:
    """The name of the operation's label, for a row that is fresh: what still says sending is in its lease."""
    state = OperationState(operation.state)
    situation = Situation(
        state=state,
        task=TaskState(operation.task.state),
        cancellation=Cancellation(operation.cancellation),
        in_lease=state is OperationState.SENDING,
    )
    return read(situation).name
