"""Late results: whatever comes after the stop is kept as evidence, with its time, and is nobody's input (R15).

Shown elsewhere:

| case | where |
|---|---|
| an old tool ends while a new run works: a receipt of the old one | `gate/test_under_way.py`, row 8 |
| a result that was ready when the stop was committed | `gate/test_under_way.py`, row 15 |
| what was admitted before the stop stays | `gate/test_whose_run.py`, row 16 |
| a success that contradicts a confirmed cancel | `folding/test_cancellation.py`, P12 |
| the host's own table at the moment of the stop | `test_admission.py` |
| an answer that comes after the next attempt was answered | `test_retries.py` |
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User

from agentstop import database, sending, settle
from agentstop.exceptions import Stale
from agentstop.models import ContextEntry, Receipt
from agentstop.models import Run as RunRow
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import call_outcomes, claims, task_of
from tests.passing import let_pass
from tests.reports.acts import REPORT, UPLOAD, ask, assert_agrees, operation, page, seen

pytestmark = pytest.mark.django_db(transaction=True)


def push(run: Run, key: str, claim: Claim, ref: str) -> None:
    """What a site's webhook does with a provider's message about one of its operations."""
    settle.record(operation(run, key).pk, [Heard(claim, Source.PROVIDER, database.now(), ref=ref)])


def states(run: Run) -> tuple[str, str]:
    return task_of(run).state, RunRow.objects.get(task=run.task_id, number=run.number).state


@pytest.mark.parametrize("claim", [Claim.SUCCEEDED, Claim.FAILED, Claim.RUNNING])
def test_a_push_after_the_stop_settles_the_operation_and_moves_no_run(tools: None, ann: User, claim: Claim) -> None:
    """The provider calls back when the task has been stopped: the receipt has its own time, the run stays as it was."""
    run = begin("Report", owner=ann)
    with run.dispatch("job", connector="tools", key="job") as op:
        op.accepted("7")
    pressed = stop(run.task_id, by=ann)
    before = states(run), task_of(run).state_since
    push(run, "job", claim, "7")
    assert (states(run), task_of(run).state_since) == before == (("stopped", "stopped"), pressed.at)
    arrived = Receipt.objects.get(operation=op.id, claim=claim)
    assert arrived.seen_at > pressed.at
    labels = {"succeeded": Label.COMPLETED_BEFORE, "failed": Label.FAILED, "running": Label.STILL_ACTIVE}
    assert seen(run, "job").label is labels[claim]
    assert (run.context(), call_outcomes(op.id)) == ([], [])
    assert list(differences()) == []


def test_a_push_after_the_time_out_makes_an_unknown_outcome_known_and_moves_no_run(tools: None, ann: User) -> None:
    """Nobody had heard of it for longer than the provider ever takes; the run was finished meanwhile."""
    run = begin("Report", owner=ann)
    with run.dispatch("job", connector="tools", key="job") as op:
        op.accepted("7")
    run.finish()
    let_pass(run.task_id, timedelta(days=8).total_seconds())
    assert seen(run, "job").label is Label.UNKNOWN
    push(run, "job", Claim.SUCCEEDED, "7")
    assert seen(run, "job").label is Label.COMPLETED
    assert states(run) == ("finished", "finished")
    assert "completed" in page(ann, run)


def test_a_push_that_comes_twice_is_kept_twice_and_counts_once(tools: None, ann: User) -> None:
    """Providers deliver at least once."""
    run = begin("Report", owner=ann)
    with run.dispatch("job", connector="tools", key="job") as op:
        op.accepted("7")
    stop(run.task_id, by=ann)
    for _ in range(2):
        push(run, "job", Claim.SUCCEEDED, "7")
    assert claims(op.id) == [("accepted", "provider"), ("succeeded", "provider"), ("succeeded", "provider")]
    assert seen(run, "job").label is Label.COMPLETED_BEFORE
    assert seen(run, "job").operation.doubled is False


def test_a_result_that_arrives_during_the_next_run_is_a_receipt_of_the_first_and_of_no_use_to_either(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """The provider answers the stopped run's call while the next run works; the next one may ask for it by its key."""
    run = begin("Upload", owner=ann)
    sandbox.hold("effect", "file")
    called = in_thread(ask, run, "file", UPLOAD)
    sandbox.wait("effect", "file")
    stop(run.task_id, by=ann)
    assert called.result(HANG_GUARD).ignored
    newer = begin(run.task_id, by=ann)
    sandbox.release("effect", "file")
    sending.close()
    assert ContextEntry.objects.count() == 0
    assert call_outcomes(operation(run, "file").pk) == [(run.number, "ignored")]
    assert ask(newer, "file", UPLOAD).accepted
    assert (len(run.context()), len(newer.context())) == (0, 1)
    assert operation(run, "file").tries.get().run == run.number
    assert_agrees(sandbox, run)


def test_what_was_heard_of_a_job_before_the_stop_is_kept_when_it_is_cancelled_half_way(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """It was accepted and under way: those receipts stay beside the one that it was cancelled."""
    run = begin("Report", owner=ann)
    sandbox.hold("working", "job")
    in_thread(ask, run, "job", REPORT)
    sandbox.wait("working", "job")
    eventually(lambda: seen(run, "job").state, "accepted")
    stop(run.task_id, by=ann)
    while work():
        pass
    told = claims(operation(run, "job").pk)
    assert told[0] == ("accepted", "provider")
    assert "cancelled" in {claim for claim, _ in told[1:]}
    assert seen(run, "job").label is Label.CANCELLED
    assert_agrees(sandbox, run)


def test_half_of_a_streamed_answer_stays_as_it_was_reported(tools: None, ann: User) -> None:
    """Code that hands in how far it is, and is broken off by the stop: its reports are kept, the end is not known."""
    run = begin("Stream", owner=ann)
    with pytest.raises(OSError, match="closed"), run.dispatch("stream", connector="tools", key="k") as op:
        for part in (0.25, 0.5):
            op.progress(part)
        stop(run.task_id, by=ann)
        assert op.stop_signal.wait(HANG_GUARD)
        raise OSError("closed at the stop")
    bodies = Receipt.objects.filter(operation=op.id).order_by("pk").values_list("claim", "body")
    assert [claim for claim, _ in bodies] == ["progress", "progress", "lost"]
    assert [body for claim, body in bodies if claim == "progress"] == ["0.25", "0.5"]
    assert seen(run, "k").label in {Label.STILL_ACTIVE, Label.UNKNOWN}


def test_what_was_streamed_into_the_hosts_own_table_before_the_stop_stays_and_is_marked_partial(
    tools: None, ann: User
) -> None:
    """R25: each part is admitted by itself; the one after the stop is kept out, and the page says how far it came."""
    run = begin("Stream", owner=ann)
    with pytest.raises(Stale), run.dispatch("stream", connector="tools", key="k") as op:
        for number, part in enumerate(["Dear ", "all, ", "never read"], start=1):
            if number == 3:
                stop(run.task_id, by=ann)
            with run.admitting(op.id):
                Group.objects.create(name=part)
            op.progress(number / 4)
    assert list(Group.objects.order_by("pk").values_list("name", flat=True)) == ["Dear ", "all, "]
    shown, told = page(ann, run), seen(run, "k")
    assert "The provider last said that it was 50 % done." in shown
    assert told.label in {Label.STILL_ACTIVE, Label.UNKNOWN}
    assert "completed" not in told.label
    newer = begin(run.task_id, by=ann)
    assert newer.tool_results(["k"])["k"].startswith("May have been done.")
