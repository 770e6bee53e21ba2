"""Cancelling what has left: who is asked, when again, what is known of it; stages, lost replies, late references.

R13, R14, R15, R18, R43.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import conf, database, reconcile, settle
from agentstop.confirm import confirm
from agentstop.models import Attempt, Decision, Operation
from agentstop.providers.base import Answer, Cancel, CancelReply, Capability, Context, LookUp, Provider, Submission
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Cancellation, Claim, Source
from agentstop.stop import StopReport, stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from tests.conftest import HANG_GUARD

pytestmark = pytest.mark.django_db(transaction=True)


class Desk(Provider):
    """Takes cancels by a script: a reply, or an exception, for each request; then acknowledges."""

    script: tuple[CancelReply | Exception, ...] = ()
    asked = 0
    capable = Capability(cancel=Cancel.BEST_EFFORT, cancel_needs_ref=False, look_up=LookUp.BY_KEY)
    state = Claim.RUNNING

    def capability(self, action: str) -> Capability:
        return self.capable

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        number, Desk.asked = Desk.asked, Desk.asked + 1
        reply = self.script[number] if number < len(self.script) else CancelReply(Claim.CANCELLED)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        return Answer(self.state)


@pytest.fixture
def desk(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[Desk]:
    settings.AGENTSTOP_CONNECTORS = {"desk": {"PROVIDER": "tests.test_cancelling.Desk"}}
    monkeypatch.setattr(Desk, "asked", 0)
    return Desk


def accepted(run: Run, *, ref: str = "7", claim: Claim = Claim.ACCEPTED) -> Operation:
    """An operation that has left and that its provider has taken."""
    with run.dispatch("job", connector="desk", key="k") as op:
        op.accepted(ref)
        if claim is Claim.PROGRESS:
            op.progress(0.5)
    return Operation.objects.get(key="k")


def soon(operation: Operation) -> Operation:
    """What is due later is due now."""
    Operation.objects.filter(pk=operation.pk).update(follow_up_at=timezone.now() - timedelta(seconds=1))
    reconcile.work()
    operation.refresh_from_db()
    return operation


@pytest.mark.parametrize(
    ("script", "tries", "end"),
    [
        ((), 1, Cancellation.ACKNOWLEDGED),
        ((CancelReply(Claim.FAILED), CancelReply(Claim.UNSENT)), 3, Cancellation.ACKNOWLEDGED),
        ((OSError("reset"), CancelReply(Claim.LOST)), 3, Cancellation.ACKNOWLEDGED),
        ((CancelReply(Claim.REFUSED),), 1, Cancellation.REFUSED),
        ((CancelReply(Claim.CANCELLED, answer=Answer(Claim.CANCELLED, ref="7")),), 1, Cancellation.CONFIRMED),
        ((CancelReply(Claim.REFUSED, answer=Answer(Claim.SUCCEEDED, ref="7")),), 1, Cancellation.MOOT),
    ],
)
def test_a_request_is_repeated_until_the_provider_has_answered_it(
    desk: type[Desk], monkeypatch: pytest.MonkeyPatch, script: tuple[CancelReply, ...], tries: int, end: Cancellation
) -> None:
    monkeypatch.setattr(desk, "script", script)
    run = begin("Job")
    operation = accepted(run)
    stop(run.task_id, policy="test")
    for _ in range(6):
        soon(operation)
    assert (operation.cancellation, Attempt.objects.filter(verb="cancel").count(), desk.asked) == (end, tries, tries)
    assert list(differences()) == []


@pytest.mark.parametrize("needs_ref", [False, True])
def test_what_was_never_tried_in_time_could_not_be_delivered(
    desk: type[Desk], settings: Settings, monkeypatch: pytest.MonkeyPatch, needs_ref: bool
) -> None:
    """No worker ran, or the reference never came: nobody is left waiting for a request that is not sent any more."""
    settings.AGENTSTOP_CANCEL_DEADLINE = 0.0
    monkeypatch.setattr(desk, "capable", Capability(cancel=Cancel.BEST_EFFORT, cancel_needs_ref=needs_ref))
    run = begin("Job")
    operation = accepted(run, ref="")
    stop(run.task_id, policy="test")
    reconcile.work()
    operation.refresh_from_db()
    assert (operation.cancellation, desk.asked) == (Cancellation.UNDELIVERABLE, 0)
    assert operation.follow_up_at == operation.due_at


def test_it_is_tried_no_longer_than_until_the_deadline(desk: type[Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "script", (CancelReply(Claim.FAILED),) * 9)
    run = begin("Job")
    operation = accepted(run)
    stop(run.task_id, policy="test")
    soon(operation)
    Decision.objects.filter(verb="cancel").update(until=database.now())
    soon(operation)
    soon(operation)
    assert (operation.cancellation, desk.asked) == (Cancellation.UNDELIVERABLE, 1)


def test_the_reference_that_arrives_late_makes_a_waiting_cancel_due(
    desk: type[Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "capable", Capability(cancel=Cancel.BEST_EFFORT, cancel_needs_ref=True))
    run = begin("Job")
    operation = accepted(run, ref="")
    stop(run.task_id, policy="test")
    operation.refresh_from_db()
    assert (operation.cancellation, operation.follow_up_at) == (Cancellation.WAITING, operation.due_at)
    settle.record(operation.pk, [Heard(Claim.ACCEPTED, Source.PROVIDER, database.now(), ref="late-7")])
    operation.refresh_from_db()
    assert operation.cancellation == Cancellation.REQUESTED
    assert reconcile.work() == 1
    operation.refresh_from_db()
    assert operation.cancellation == Cancellation.ACKNOWLEDGED


@pytest.mark.parametrize(
    ("claim", "end"), [(Claim.ACCEPTED, Cancellation.REQUESTED), (Claim.PROGRESS, Cancellation.UNSUPPORTED)]
)
def test_what_can_be_cancelled_until_it_starts_is_not_asked_for_later(
    desk: type[Desk], monkeypatch: pytest.MonkeyPatch, claim: Claim, end: Cancellation
) -> None:
    monkeypatch.setattr(desk, "capable", Capability(cancel=Cancel.UNTIL_STARTED, cancel_needs_ref=False))
    run = begin("Job")
    operation = accepted(run, claim=claim)
    stop(run.task_id, policy="test")
    operation.refresh_from_db()
    assert operation.cancellation == end


def test_a_stop_that_abandons_asks_nobody_and_accounts_for_what_goes_on(desk: type[Desk]) -> None:
    run = begin("Job")
    operation = accepted(run)
    report = stop(run.task_id, policy="test", cancel=False)
    soon(operation)
    assert (report.open, operation.cancellation, desk.asked) == ((operation.pk,), Cancellation.NONE, 0)
    assert stop(run.task_id, policy="test").why == "already_stopped"
    operation.refresh_from_db()
    assert operation.cancellation == Cancellation.REQUESTED  # a second press asks for what the first left out


def test_a_second_press_asks_for_what_the_first_left_out_below_too(desk: type[Desk]) -> None:
    root = begin("Parent")
    operation = accepted(begin("Job", serves=[root]))
    assert stop(root.task_id, policy="test", cancel=False).open_below == (operation.pk,)
    assert not Decision.objects.filter(verb="cancel").exists()
    assert stop(root.task_id, policy="test").why == "already_stopped"
    operation.refresh_from_db()
    assert operation.cancellation == Cancellation.REQUESTED


def test_whoever_wants_to_waits_until_a_cancel_is_confirmed(desk: type[Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "script", (CancelReply(Claim.CANCELLED, answer=Answer(Claim.CANCELLED, ref="7")),))
    run = begin("Job")
    operation = accepted(run)
    report = stop(run.task_id, policy="test")
    assert confirm(report, deadline=HANG_GUARD) == {operation.pk: Cancellation.CONFIRMED}


def test_the_wait_is_for_what_children_have_sent_too(desk: type[Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    """R2, R31: the stop has asked for these cancels as well."""
    monkeypatch.setattr(desk, "script", (CancelReply(Claim.CANCELLED, answer=Answer(Claim.CANCELLED, ref="7")),))
    root = begin("Parent")
    operation = accepted(begin("Job", serves=[root]))
    report = stop(root.task_id, policy="test")
    assert report.open == ()
    assert confirm(report, deadline=HANG_GUARD) == {operation.pk: Cancellation.CONFIRMED}


def test_waiting_ends_at_the_deadline_and_the_stop_holds(desk: type[Desk]) -> None:
    run = begin("Job")
    operation = accepted(run)
    report: StopReport = stop(run.task_id, policy="test")
    soon(operation)
    assert confirm(report, deadline=0.2) == {operation.pk: Cancellation.ACKNOWLEDGED}
    assert run.call("job", connector="desk", key="next", send=lambda op: "sent").ignored


def test_a_stop_by_a_person_waits_for_the_real_provider(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Report", owner=ann)
    sandbox.hold("working", "slow report")
    with run.dispatch("report.create", connector="sandbox", key="r") as op:
        import httpx

        answer = httpx.post(
            f"{sandbox.address}/reports", json={"text": "slow report"}, headers={"Idempotency-Key": op.idempotency_key},
        )  # fmt: skip
        op.accepted(answer.headers["location"])
    report = stop(run.task_id, by=ann)
    assert set(confirm(report, deadline=HANG_GUARD).values()) == {Cancellation.CONFIRMED}
    assert [effect["state"] for effect in sandbox.effects(op.idempotency_key)] == ["cancelled"]
    assert conf.CANCEL_DEADLINE > 0
