"""Unknown outcomes and undoing: what may have happened is neither sent again on a guess nor told as if it were known.

R9, R11, R12, R20, R24.

Shown elsewhere:

| case | where |
|---|---|
| undoing by somebody without the right, or by a stranger, is refused and recorded | `test_compensate.py` |
| undoing twice, also at once from eight threads, undoes once | `test_compensate.py` |
| the first operation keeps its truth whatever is found after it was undone | `test_compensate.py` |
| a person settles what no look-up can | `test_settlement.py` |
| a job that nobody can be asked about frees its caller at the deadline | `test_api.py` |
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop.compensate import compensate
from agentstop.confirm import confirm
from agentstop.dispatched import Dispatched
from agentstop.exceptions import InFlight, OutcomeUnknown
from agentstop.models import Operation
from agentstop.reconcile import look_up_now, work
from agentstop.runs import Run, begin
from agentstop.states import Cancellation
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import sandbox_connector
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import claims, observed, task_of
from tests.reports.acts import (
    BLIND,
    NOTIFY,
    REPORT,
    UPLOAD,
    asked,
    assert_agrees,
    counts,
    long_after,
    operation,
    page,
    seen,
    words,
)
from tests.reports.acts import (
    ask_as_before as ask,
)

pytestmark = pytest.mark.django_db(transaction=True)

NO_ANSWER = [
    pytest.param({"drop": True}, id="the connection is reset"),
    pytest.param({"lose_response": True}, id="the connection is closed"),
]


@pytest.mark.parametrize("switches", NO_ANSWER)
def test_an_effect_whose_answer_was_lost_is_not_made_again_where_it_would_be_a_second_one(
    sandbox: SandboxClient, ann: User, switches: dict[str, Any]
) -> None:
    """The provider has done it and says nothing; this run and the next one ask again, at once and much later."""
    run = begin("Notify", owner=ann)
    assert ask(run, "job", BLIND, **switches).failed
    sandbox.settled("job")
    assert seen(run, "job").label is Label.UNKNOWN
    assert asked(run, "job", BLIND, by=ask) in {"in_flight", "outcome_unknown"}
    long_after(run)
    assert asked(run, "job", BLIND, by=ask) == "outcome_unknown"
    assert asked(begin(task_of(run)), "job", BLIND, by=ask) == "outcome_unknown"
    work()
    assert len(sandbox.ledger(task="job")["effects"]) == 1
    told = seen(run, "job")
    assert told.label is Label.UNKNOWN
    for sentence in (told.reading.evidence, told.reading.next_step, told.reading.limit):
        assert sentence and sentence in page(ann, run)


@pytest.mark.parametrize("switches", NO_ANSWER)
def test_an_effect_whose_answer_was_lost_is_looked_up_and_answered_where_the_provider_can_be_asked(
    sandbox: SandboxClient, switches: dict[str, Any]
) -> None:
    """The same at a provider that can be asked: the next call gets the result that the first one missed."""
    run = begin("Notify")
    assert ask(run, "job", **switches).failed
    sandbox.settled("job")
    while work():
        pass
    again = ask(run, "job")
    assert again.accepted and again.result["text"] == "job"
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 1, "cancels": 0, "writes": 1}
    assert_agrees(sandbox, run)


def test_a_tool_that_claims_nothing_is_attempted_once(tools: None) -> None:
    """Code of one's own, behind a connector that promises nothing about repeating: five jobs ask for it."""
    run, called = begin("Write"), []

    def tool(op: Dispatched) -> None:
        called.append(op.attempt)
        raise OSError("broken pipe")

    assert run.call("write", connector="tools", key="k", send=tool).failed
    for _ in range(4):
        long_after(run)
        with pytest.raises(OutcomeUnknown, match="ask a person"):
            begin(task_of(run)).call("write", connector="tools", key="k", send=tool)
    assert called == [1]
    assert operation(run, "k").attempts == 1


def test_what_was_refused_may_be_tried_again_even_where_repeating_would_be_a_second_effect(
    sandbox: SandboxClient,
) -> None:
    """A refusal is an answer: it proves that there was no effect."""
    run = begin("Notify")
    assert ask(run, "job", BLIND, refuse=True).failed
    assert ask(run, "job", BLIND).accepted
    assert len(sandbox.ledger(task="job")["effects"]) == 1


def test_a_key_is_the_same_for_every_try_of_an_operation_and_no_others(sandbox: SandboxClient) -> None:
    """What reaches the provider: three tries of one operation, another one, and the same key in another task."""
    run, other = begin("Notify"), begin("Notify too")
    for _ in range(2):
        assert ask(run, "job", server_error=2).failed
        long_after(run)
    assert ask(run, "job", server_error=2).accepted
    assert ask(run, "another").accepted and ask(other, "job").accepted
    used = {effect["key"] for effect in sandbox.ledger()["effects"]}
    assert len(used) == 3
    assert used == {str(one.idempotency_key) for one in Operation.objects.all()}
    assert counts(sandbox, run, "job") == {"submits": 3, "reads": 0, "cancels": 0, "writes": 1}
    assert list(operation(run, "job").tries.order_by("number").values_list("number", flat=True)) == [1, 2, 3]
    assert_agrees(sandbox, run, other)


def test_a_next_try_waits_until_the_last_one_can_no_longer_act(sandbox: SandboxClient) -> None:
    """Its sender may be alive: until its lease is over, nobody else sends the same."""
    run = begin("Notify")
    assert ask(run, "job", server_error=1).failed
    with pytest.raises(InFlight):
        ask(run, "job", server_error=1)
    assert counts(sandbox, run, "job")["submits"] == 1


@pytest.fixture
def forgetful(sandbox: SandboxClient, settings: Settings) -> SandboxClient:
    """A provider whose "not found" proves nothing."""
    connector = sandbox_connector(sandbox.address)
    notify = connector["OPTIONS"]["actions"][NOTIFY]
    weaker = replace(notify, capability=replace(notify.capability, authoritative=False))
    connector["OPTIONS"]["actions"] |= {NOTIFY: weaker}
    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector}
    return sandbox


def unknown(run: Run, **switches: Any) -> None:
    assert ask(run, "job", **switches).failed
    long_after(run)
    assert seen(run, "job").label is Label.UNKNOWN


def test_a_look_up_that_finds_it_says_that_it_was_done(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Notify", owner=ann)
    unknown(run, lose_response=True)
    assert look_up_now(operation(run, "job").pk, by=ann)
    assert seen(run, "job").label is Label.COMPLETED
    assert_agrees(sandbox, run)


def test_a_look_up_that_finds_nothing_says_that_it_was_not_sent_where_that_proves_it(
    sandbox: SandboxClient, ann: User
) -> None:
    run = begin("Notify", owner=ann)
    unknown(run, server_error=1)
    assert look_up_now(operation(run, "job").pk, by=ann)
    assert seen(run, "job").label is Label.NOT_SENT
    assert_agrees(sandbox, run)


def test_a_look_up_that_finds_nothing_proves_nothing_while_it_might_not_show_yet(
    sandbox: SandboxClient, ann: User
) -> None:
    """Asked the moment after the send: the provider may still come to it."""
    run = begin("Notify", owner=ann)
    assert ask(run, "job", server_error=1).failed
    look_up_now(operation(run, "job").pk, by=ann)
    assert claims(operation(run, "job").pk)[-1] == ("not_found", "read_back")
    assert seen(run, "job").label is Label.UNKNOWN


def test_a_look_up_that_finds_nothing_leaves_it_unknown_where_that_proves_nothing(
    forgetful: SandboxClient, ann: User
) -> None:
    run = begin("Notify", owner=ann)
    unknown(run, server_error=1)
    look_up_now(operation(run, "job").pk, by=ann)
    told = seen(run, "job")
    assert claims(told.operation.pk)[-1] == ("not_found", "read_back")
    assert told.label is Label.UNKNOWN
    assert told.reading.limit in page(ann, run)


def test_a_look_up_that_fails_leaves_it_unknown_and_the_next_one_may_tell(sandbox: SandboxClient, ann: User) -> None:
    """The provider answers two look-ups with an error, then the third."""
    run = begin("Notify", owner=ann)
    unknown(run, lose_response=True, look_up_error=2)
    for _ in range(2):
        look_up_now(operation(run, "job").pk, by=ann)
        assert seen(run, "job").label is Label.UNKNOWN
    look_up_now(operation(run, "job").pk, by=ann)
    assert seen(run, "job").label is Label.COMPLETED
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 3, "cancels": 0, "writes": 1}
    assert_agrees(sandbox, run)


def test_a_job_whose_waiter_gave_up_stays_listed_until_it_ends(
    sandbox: SandboxClient, ann: User, in_thread: InThread
) -> None:
    """The coroutine that waited is cancelled, its loop closed and its run finished; a press still reaches the job."""
    run, working = begin("Report", owner=ann), threading.Event()
    sandbox.hold("working", "job")

    async def give_up() -> None:
        waiter = asyncio.create_task(run.acall(REPORT, words("job"), connector="sandbox", key="job"))
        await asyncio.to_thread(working.wait, HANG_GUARD)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    given_up = in_thread(asyncio.run, give_up())
    sandbox.wait("working", "job")
    working.set()
    given_up.result(HANG_GUARD)
    assert run.finish()
    told = seen(run, "job")
    assert told.label is Label.STILL_ACTIVE
    assert told.reading.name in page(ann, run)

    report = stop(run.task_id, by=ann)
    assert (report.why, report.open) == ("finished", (told.operation.pk,))
    assert confirm(report, deadline=HANG_GUARD) == {told.operation.pk: Cancellation.CONFIRMED}
    assert [effect["state"] for effect in sandbox.effects(str(told.operation.idempotency_key))] == ["cancelled"]
    assert_agrees(sandbox, run)


@pytest.mark.parametrize(
    ("switches", "label"),
    [({"fail": True}, Label.FAILED), ({"refuse": True}, Label.FAILED), ({"lose_response": True}, Label.UNKNOWN)],
    ids=["failed", "refused", "answer lost"],
)
def test_an_undoing_that_went_wrong_has_a_state_of_its_own_beside_what_it_was_to_undo(
    sandbox: SandboxClient, ann: User, switches: dict[str, Any], label: Label
) -> None:
    """The effect is still told as made, the undoing as what it is; after a lost answer a look-up tells."""
    run = begin("Upload", owner=ann)
    assert ask(run, "file", UPLOAD, undo=switches).accepted
    first = operation(run, "file")
    stop(run.task_id, by=ann)
    undoing = compensate(first.pk, by=ann, reason="wrong file")
    undoing.future.result(HANG_GUARD)
    assert observed(first.pk).label is Label.COMPLETED_BEFORE
    assert observed(undoing.operation).label is label
    assert observed(undoing.operation).reading.name in page(ann, run)
    if label is Label.FAILED:
        assert sandbox.standing(task="file") == 1
        assert compensate(first.pk, by=ann).operation != undoing.operation  # it may be tried anew
        return
    with pytest.raises(InFlight):
        compensate(first.pk, by=ann)
    while work():
        pass
    assert observed(undoing.operation).label is Label.COMPLETED  # by a person, after the stop: not before it
    assert (sandbox.standing(task="file"), observed(first.pk).label) == (0, Label.COMPLETED_BEFORE)
    assert list(differences()) == []
