"""R13: five facts of one operation, each stored by itself with its time and its source, none implied by another."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import reconcile, sending
from agentstop.models import Attempt, Call, Decision, Receipt
from agentstop.runs import Run, begin
from agentstop.states import Cancellation, OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import of_key
from tests.passing import let_pass
from tests.reports.acts import REPORT, words

pytestmark = pytest.mark.django_db(transaction=True)


def told(run: Run) -> dict[str, tuple[str, datetime]]:
    """Of each fact that is there: who says so, and when."""
    of_task = {"operation__task": run.task_id}
    found: dict[str, tuple[str, datetime]] = {}
    for stopped in Decision.objects.filter(task=run.task_id, verb="stop"):
        found["stop recorded"] = (stopped.by.get_username() if stopped.by else "", stopped.at)
    for request in Attempt.objects.filter(verb="cancel", **of_task):
        found["request sent"] = ("worker", request.passed_at)
    for receipt in Receipt.objects.filter(**of_task).order_by("seen_at"):
        if receipt.source == "ack":
            found["acknowledged"] = (receipt.source, receipt.seen_at)
        elif receipt.source == "read_back" and receipt.claim == "succeeded":
            found["confirmed"] = (receipt.source, receipt.seen_at)
    for call in Call.objects.filter(**of_task):
        found["kept out"] = (call.outcome, call.at)
    return found


def test_each_comes_by_itself_with_its_time_and_its_source(
    sandbox: SandboxClient, settings: Settings, in_thread: InThread, ann: User
) -> None:
    """The provider takes note of the cancel and completes all the same; then the run asks for the result in vain."""
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    run = begin("Report", owner=ann)
    sandbox.hold("working", "job")
    called = in_thread(run.call, REPORT, words("job", ack_and_complete=True), connector="sandbox", key="job")
    sandbox.wait("working", "job")
    eventually(lambda: of_key(run.task_id, "job").state, OperationState.ACCEPTED)
    assert told(run) == {}

    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    sending.close()
    assert list(told(run)) == ["stop recorded"] and told(run)["stop recorded"][0] == "ann"
    assert of_key(run.task_id, "job").cancellation is Cancellation.REQUESTED

    reconcile.work()
    assert list(told(run)) == ["stop recorded", "request sent", "acknowledged"]
    seen = of_key(run.task_id, "job")
    assert (seen.cancellation, seen.state) == (Cancellation.ACKNOWLEDGED, OperationState.ACCEPTED)

    sandbox.release("working", "job")
    sandbox.settled("job")
    let_pass(run.task_id, 1)
    reconcile.work()
    assert of_key(run.task_id, "job").state is OperationState.SUCCEEDED
    found = told(run)
    assert list(found) == ["stop recorded", "request sent", "acknowledged", "confirmed"]
    assert [moment for _, moment in found.values()] == sorted(moment for _, moment in found.values())
    assert run.context() == []  # and nothing of it was admitted


def test_that_a_result_was_kept_out_is_a_fact_of_its_own(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """It was answered after the stop: the call is on record beside the receipt, and neither implies the other."""
    run = begin("Notify", owner=ann)
    sandbox.hold("effect", "job")
    called = in_thread(run.call, "notify.post", words("job"), connector="sandbox", key="job")
    sandbox.wait("effect", "job")
    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    assert "kept out" not in told(run)
    sandbox.release("effect", "job")
    sending.close()
    assert told(run)["kept out"][0] == "ignored"
    [call] = Call.objects.all()
    assert (call.run, call.admitted_at) == (run.number, None)
    assert of_key(run.task_id, "job").state is OperationState.SUCCEEDED
