"""Undoing is another operation: of what exists, by a person with the right, once; the first keeps its truth (R24)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agentstop import asking, database, reconcile, settle
from agentstop.compensate import CannotCompensate, compensate
from agentstop.exceptions import Denied, InFlight, TaskNotFound
from agentstop.models import Decision, Operation, Receipt
from agentstop.providers.base import Answer
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.settlement import settle_by_hand
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from tests.apart import waiting_for_locks
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def made(run: Run, key: str = "q3", **switches: object) -> Operation:
    """An upload that was really made."""
    args = {"text": "report", "label": f"task {run.task_id}", "sandbox": switches}
    assert run.call("file.upload", args, connector="sandbox", key=key).accepted
    return Operation.objects.get(task=run.task_id, key=key, compensates=None)


def test_what_was_done_is_undone_after_a_stop_and_keeps_its_own_truth(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Upload", owner=ann)
    operation = made(run)
    stop(run.task_id, by=ann)
    undoing = compensate(operation.pk, by=ann, reason="wrong file")
    assert undoing.future.result(HANG_GUARD).state == "succeeded"
    operation.refresh_from_db()
    assert operation.state == "succeeded"
    assert sandbox.standing(task=f"task {run.task_id}") == 0
    assert list(differences()) == []


def test_a_stop_undoes_nothing_by_itself(sandbox: SandboxClient, ann: User) -> None:
    """R24. Neither the press nor the follow-up work after it, nor a new run that supersedes it."""
    run = begin("Upload", owner=ann)
    operation = made(run)
    stop(run.task_id, by=ann)
    Operation.objects.update(follow_up_at=timezone.now() - timedelta(seconds=1))
    reconcile.work()
    begin(operation.task, by=ann)
    assert not Operation.objects.filter(compensates__isnull=False).exists()
    assert not Decision.objects.filter(verb="compensate").exists()
    assert sandbox.standing(task=f"task {run.task_id}") == 1


def test_the_first_operation_is_still_done_when_the_provider_has_forgotten_it(
    sandbox: SandboxClient, ann: User
) -> None:
    run = begin("Upload", owner=ann)
    operation = made(run, forget_undone=True)
    compensate(operation.pk, by=ann).future.result(HANG_GUARD)
    reconcile.look_up_now(operation.pk, by=ann)
    operation.refresh_from_db()
    assert operation.receipts.filter(claim="not_found").exists()
    assert operation.state == "succeeded"


def test_it_is_undone_once_however_often_it_is_asked(sandbox: SandboxClient, ann: User, in_thread: InThread) -> None:
    operation = made(begin("Upload", owner=ann))
    asked = [in_thread(_ask, operation.pk, ann) for _ in range(8)]
    assert sorted(future.result(HANG_GUARD) for future in asked) == ["in_flight"] * 7 + ["undone"]
    (undo,) = sandbox.undos(str(operation.idempotency_key))
    assert undo["state"] == "succeeded"


def _ask(operation: int, user: User) -> str:
    try:
        compensate(operation, by=user).future.result(HANG_GUARD)
    except InFlight as refusal:
        return refusal.reason
    return "undone"


def test_the_database_itself_refuses_a_second_one(sandbox: SandboxClient, ann: User) -> None:
    operation = made(begin("Upload", owner=ann))
    compensate(operation.pk, by=ann).future.result(HANG_GUARD)
    (first,) = Operation.objects.filter(compensates=operation)
    Operation.objects.filter(pk=first.pk).update(state="sending")
    with pytest.raises(IntegrityError):
        Operation.objects.create(
            task=operation.task, key="undo again", connector="sandbox", action="file.undo", digest="d",
            state="prepared", compensates=operation, state_since=first.created_at, folded_at=first.created_at,
            created_at=first.created_at,
        )  # fmt: skip


def test_a_failed_one_is_visible_and_may_be_tried_again(sandbox: SandboxClient, ann: User) -> None:
    operation = made(begin("Upload", owner=ann))
    told = Receipt.objects.filter(operation=operation, claim="succeeded")
    told.update(ref="/uploads/999")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Operation, "idempotency_key", "00000000-0000-0000-0000-000000000000", raising=False)
        settled = compensate(operation.pk, by=ann).future.result(HANG_GUARD)
    assert settled.state == "failed"
    told.update(ref=sandbox.effects(str(operation.idempotency_key))[0]["ref"])
    assert compensate(operation.pk, by=ann).future.result(HANG_GUARD).state == "succeeded"
    states = Operation.objects.filter(compensates=operation).order_by("pk").values_list("state", flat=True)
    assert list(states) == ["failed", "succeeded"]


def test_a_lost_answer_leaves_it_unknown_and_a_look_up_settles_it(sandbox: SandboxClient, ann: User) -> None:
    operation = made(begin("Upload", owner=ann))
    sandbox.hold("accepted", "undo: report")
    undoing = compensate(operation.pk, by=ann)
    sandbox.wait("accepted", "undo: report")
    row = Operation.objects.get(pk=undoing.operation)
    assert row.state == "sending"
    with pytest.raises(InFlight):
        compensate(operation.pk, by=ann)
    sandbox.release("accepted", "undo: report")
    assert undoing.future.result(HANG_GUARD).state == "succeeded"


@pytest.mark.parametrize("state", ["prepared", "failed", "unknown"])
def test_only_what_is_known_to_exist_is_undone(sandbox: SandboxClient, ann: User, state: str) -> None:
    run = begin("Upload", owner=ann)
    if state == "prepared":
        run.prepare("file.upload", {"text": "x"}, connector="sandbox", key="k")
    else:
        switch = {"failed": "refuse", "unknown": "nonsense"}[state]
        args = {"text": "x", "sandbox": {switch: True} if state == "failed" else {"drop": True}}
        run.call("file.upload", args, connector="sandbox", key="k")
    operation = Operation.objects.get()
    assert operation.state == state
    with pytest.raises(CannotCompensate, match=state):
        compensate(operation.pk, by=ann)


def test_an_action_without_a_way_to_undo_says_so(sandbox: SandboxClient, ann: User) -> None:
    begin("Notify", owner=ann).call("notify.blind", {"text": "x"}, connector="sandbox", key="k")
    with pytest.raises(CannotCompensate, match="names no way to undo"):
        compensate(Operation.objects.get().pk, by=ann)


def test_an_undoing_is_not_undone(sandbox: SandboxClient, ann: User) -> None:
    undoing = compensate(made(begin("Upload", owner=ann)).pk, by=ann)
    undoing.future.result(HANG_GUARD)
    with pytest.raises(CannotCompensate):
        compensate(undoing.operation, by=ann)


def test_a_viewer_may_not_and_a_stranger_learns_nothing(sandbox: SandboxClient, ann: User, ben: User) -> None:
    operation = made(begin("Upload", owner=ann))
    with pytest.raises(TaskNotFound):
        compensate(operation.pk, by=ben)
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    ben = User.objects.get(pk=ben.pk)
    with pytest.raises(Denied):
        compensate(operation.pk, by=ben)
    assert Decision.objects.filter(verb="compensate", effect="denied", by=ben).count() == 2
    assert sandbox.undos(str(operation.idempotency_key)) == []


def test_after_it_was_undone_the_key_means_a_new_effect(sandbox: SandboxClient, ann: User) -> None:
    run = begin("Upload", owner=ann)
    first = made(run)
    compensate(first.pk, by=ann).future.result(HANG_GUARD)
    args = {"text": "report", "label": f"task {run.task_id}", "sandbox": {}}
    assert run.call("file.upload", args, connector="sandbox", key="q3").accepted
    second = Operation.objects.get(key="q3", incarnation=2)
    assert second.idempotency_key != first.idempotency_key
    assert sandbox.standing(task=f"task {run.task_id}") == 1


def test_an_undoing_whose_process_died_is_followed_up(sandbox: SandboxClient, ann: User) -> None:
    operation = made(begin("Upload", owner=ann))
    undoing = compensate(operation.pk, by=ann)
    undoing.future.result(HANG_GUARD)
    row = Operation.objects.get(pk=undoing.operation)
    row.receipts.all().delete()  # as if its process had died before the answer was stored
    past = timezone.now() - timedelta(hours=1)
    row.tries.update(passed_at=past, lease_until=past)
    Operation.objects.filter(pk=row.pk).update(state="sending", due_at=past, follow_up_at=past)
    reconcile.work()
    Operation.objects.filter(pk=row.pk).update(follow_up_at=past)
    reconcile.work()
    row.refresh_from_db()
    assert row.state == "succeeded"


def test_what_is_heard_late_of_an_undoing_is_kept_though_another_one_has_begun(
    sandbox: SandboxClient, ann: User
) -> None:
    operation = made(begin("Upload", owner=ann))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "by_provider", lost)
        first = compensate(operation.pk, by=ann)
        assert first.future.result(HANG_GUARD).state == "unknown"
    settle_by_hand(first.operation, by=ann, outcome="failed", reason="nothing to be seen of it")
    second = compensate(operation.pk, by=ann)
    assert second.future.result(HANG_GUARD).state == "succeeded"
    late = Heard(Claim.SUCCEEDED, Source.PROVIDER, database.now(), ref="undo 1")
    assert settle.record(first.operation, [late]).state == "succeeded"


def refuted(operation: Operation) -> str:
    """The state after the provider was asked and says now that it was cancelled."""
    return settle.record(operation.pk, [Heard(Claim.CANCELLED, Source.READ_BACK, database.now())]).state


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Answer(Claim.UNSENT, Source.SENDER), "cancelled"),
        (Answer(Claim.REFUSED), "cancelled"),
        (Answer(Claim.LOST, Source.SENDER), "succeeded"),
        (Answer(Claim.SUCCEEDED), "succeeded"),
    ],
)
def test_only_an_undoing_that_may_have_had_its_effect_explains_what_is_said_later(
    sandbox: SandboxClient, ann: User, answer: Answer, state: str
) -> None:
    """R24: nothing undid it, so the provider's later word that it was cancelled is about the effect itself."""
    operation = made(begin("Upload", owner=ann))
    answered_with(answer, operation, ann)
    assert refuted(operation) == state
    assert list(differences()) == []


@pytest.mark.parametrize("first", [True, False], ids=["before the word", "after the word"])
def test_an_undoing_that_was_taken_for_unsent_and_arrived_explains_it_again(
    sandbox: SandboxClient, ann: User, first: bool
) -> None:
    """Whichever is heard first, the effect that was undone keeps its own truth, and nothing stored is stale."""
    operation = made(begin("Upload", owner=ann))
    undoing = answered_with(Answer(Claim.UNSENT, Source.SENDER), operation, ann)
    arrived = Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now(), ref="undo 1")
    if not first:
        assert refuted(operation) == "cancelled"
    settle.record(undoing, [arrived])
    if first:
        refuted(operation)
    assert Operation.objects.get(pk=operation.pk).state == "succeeded"
    assert list(differences()) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="on SQLite one writer at a time locks everything")
def test_a_receipt_of_an_undoing_locks_what_it_undoes_before_it(
    sandbox: SandboxClient, ann: User, in_thread: InThread
) -> None:
    """As everybody else does, in the order of ids: the other way round the two would wait for each other."""
    operation = made(begin("Upload", owner=ann))
    undoing = answered_with(Answer(Claim.LOST, Source.SENDER), operation, ann)
    heard = Heard(Claim.SUCCEEDED, Source.PROVIDER, database.now())
    with transaction.atomic():
        Operation.objects.select_for_update().get(pk=operation.pk)
        recorded = in_thread(settle.record, undoing, [heard])
        eventually(lambda: in_thread(waiting_for_locks).result(HANG_GUARD), 1)
        Operation.objects.select_for_update(nowait=True).get(pk=undoing)
    assert recorded.result(HANG_GUARD).state == "succeeded"


def answered_with(answer: Answer, operation: Operation, by: User) -> int:
    """An undoing that is answered so."""

    async def told(_: object) -> Answer:
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "by_provider", told)
        undoing = compensate(operation.pk, by=by)
        undoing.future.result(HANG_GUARD)
    return undoing.operation


async def lost(_: object) -> Answer:
    return Answer(Claim.LOST, Source.SENDER)
