"""The words by which an operation's owner reads it, so that the desk and the page say the same."""

from __future__ import annotations

from django.utils.translation import gettext

from agentstop.accounts import account, selection
from agentstop.models import Operation
from agentstop.reports import report
from agentstop.reports.operation_report import OperationReport
from agentstop.states import Cancellation, Claim, OperationState, TaskState
from agentstop.words.sentences import NAMES, Label
from agentstop.words.wording import Situation, read

_TOLD = "_agentstop_told"


def reads_as(operation: Operation) -> str:
    """The name of the operation's label, for a row that is fresh: what still says sending is in its lease."""
    state = OperationState(operation.state)
    if state is OperationState.NOT_SENT and operation.attempts and _is_given_up(operation):
        return gettext(NAMES[Label.GIVEN_UP])
    situation = Situation(
        state=state,
        task=TaskState(operation.task.state),
        cancellation=Cancellation(operation.cancellation),
        in_lease=state is OperationState.SENDING,
    )
    return read(situation).name


def _is_given_up(operation: Operation) -> bool:
    """Asked of the few rows that had left and are told not to have had an effect."""
    return operation.receipts.filter(claim=Claim.ENDED).exists()


def told(operation: Operation) -> OperationReport:
    """All that the task's page says of it, read once for this row: for the page of one operation."""
    known = vars(operation).get(_TOLD)
    if known is None:
        [found] = account.load_all([operation.task_id], selection.only([operation.pk]))
        known = vars(operation)[_TOLD] = next(one for one in report.tell(found).operations if one.id == operation.pk)
    reading: OperationReport = known
    return reading
