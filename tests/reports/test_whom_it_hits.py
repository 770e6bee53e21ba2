"""Whom it hits: the task that was meant and nobody beside it, by those who may, and on a connector that all share.

Shown elsewhere:

| case | where |
|---|---|
| a viewer's forged press, on one task or many, is denied and recorded | `test_views.py`, `admin/test_stopping.py` |
| nothing is added, changed or deleted in the admin | `admin/test_pages.py` |
| every address for a stranger, and for somebody who is not logged in | `test_views.py`, `live/test_doors.py` |
| an operator who stops is named to the owner | `test_views.py`, `test_report.py` |
| pausing needs a right of its own | `test_pause.py` |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User

from agentstop import inputs, sending
from agentstop.compensate import compensate
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Attempt, Decision, Operation, Receipt, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.reconcile import look_up_now, work
from agentstop.runs import begin
from agentstop.settlement import settle_by_hand
from agentstop.states import Cancellation
from agentstop.stop import stop
from agentstop.testing.barriers import shared_client
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.reports.acts import BLIND, UPLOAD, ask, assert_agrees, counts, operation, page, seen

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_ten_runs_on_one_connector_nine_finish(sandbox: SandboxClient, in_thread: InThread, ann: User) -> None:
    """All ten are at the provider when one is stopped; the provider's counters tell who was served."""
    runs = [begin(f"Task {number}", owner=ann) for number in range(10)]
    sandbox.hold("received")
    calls = [in_thread(ask, run, f"job {number}") for number, run in enumerate(runs)]
    sandbox.wait("received", count=10)
    client = shared_client()
    stop(runs[4].task_id, by=ann)
    assert calls[4].result(HANG_GUARD).ignored
    sandbox.release("received")
    rest = [run for run in runs if run is not runs[4]]
    assert all(call.result(HANG_GUARD).accepted for number, call in enumerate(calls) if number != 4)
    assert all(run.finish() for run in rest)
    assert shared_client() == client
    sending.close()
    assert {task_of(run).state for run in rest} == {"finished"}
    for number, run in enumerate(runs):
        assert counts(sandbox, run, f"job {number}") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}
    assert_agrees(sandbox, *runs)


SIDE_BY_SIDE = 25


def test_the_next_calls_of_other_tasks_are_served_while_stopped_ones_still_hold_the_shared_connector(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """Many calls are stopped and stay at the provider; as many others pass by them on the same client."""
    stopped = [begin(f"Stopped {number}", owner=ann) for number in range(SIDE_BY_SIDE)]
    others = [begin(f"Other {number}", owner=ann) for number in range(SIDE_BY_SIDE)]
    sandbox.hold("received", "held")
    calls = [in_thread(ask, run, "held") for run in stopped]
    sandbox.wait("received", "held", count=SIDE_BY_SIDE)
    client = shared_client()
    for run in stopped:
        stop(run.task_id, by=ann)
    assert all(call.result(HANG_GUARD).ignored for call in calls)
    served = [in_thread(ask, run, "passes by") for run in others]
    assert all(call.result(HANG_GUARD).accepted for call in served)
    assert shared_client() == client
    assert {seen(run, "held").label for run in stopped} == {Label.STILL_ACTIVE}
    sandbox.release("received", "held")
    sending.close()
    assert_agrees(sandbox, *stopped, *others)


def test_of_two_people_in_one_room_each_stops_only_their_own(
    sandbox: SandboxClient, in_thread: InThread, ann: User, ben: User
) -> None:
    """Two tasks about the same object of the host, of different owners, both in the middle of a send."""
    room = Group.objects.create(name="room")
    anns, bens = (begin("Ask in the room", owner=user, subject=room) for user in (ann, ben))
    sandbox.hold("received")
    calls = [in_thread(ask, run, name) for run, name in [(anns, "ann's"), (bens, "ben's")]]
    sandbox.wait("received", count=2)
    with pytest.raises(TaskNotFound):
        stop(bens.task_id, by=ann)
    assert stop(anns.task_id, by=ann).stopped
    sandbox.release("received")
    assert [call.result(HANG_GUARD).outcome for call in calls] == ["ignored", "accepted"]
    assert [task_of(run).state for run in (anns, bens)] == ["stopped", "active"]


Verb = Callable[[Operation, Any], Any]
VERBS: dict[str, Verb] = {
    "stop": lambda op, user: stop(op.task_id, by=user),
    "start": lambda op, user: begin(op.task_id, by=user),
    "pause": lambda op, user: pause(op.task_id, by=user),
    "resume": lambda op, user: resume(op.task_id, by=user),
    "add": lambda op, user: inputs.add(op.task_id, "and me", by=user),
    "compensate": lambda op, user: compensate(op.pk, by=user),
    "settle": lambda op, user: settle_by_hand(op.pk, by=user, outcome="failed", reason="because"),
    "look_up": lambda op, user: look_up_now(op.pk, by=user),
}


def everything() -> list[list[tuple[Any, ...]]]:
    return [list(model.objects.order_by("pk").values_list()) for model in (Task, RunRow, Operation, Attempt, Receipt)]  # type: ignore[misc]


def denied(op: Operation) -> list[tuple[str, int | None]]:
    """Which verbs were denied to whom, as it is recorded."""
    found = Decision.objects.filter(task=op.task_id, effect="denied").order_by("pk")
    return list(found.values_list("verb", "by"))


def test_no_verb_reaches_somebody_elses_task(sandbox: SandboxClient, ann: User, ben: User) -> None:
    """Every verb by a stranger, by nobody, and by the owner who was locked out: refused before anything happens."""
    run = begin("Upload", owner=ann)
    assert ask(run, "file", UPLOAD).accepted
    op, before, ledger = operation(run, "file"), everything(), sandbox.ledger()
    ann.is_active = False
    for user in (ben, AnonymousUser(), ann):
        for verb in VERBS.values():
            with pytest.raises(TaskNotFound):
                verb(op, user)
    assert (everything(), sandbox.ledger()) == (before, ledger)
    assert denied(op) == [(verb, user) for user in (ben.pk, None, ann.pk) for verb in VERBS]


def test_a_viewer_may_look_and_do_nothing(sandbox: SandboxClient, ann: User, ben: User) -> None:
    """One who may read all tasks is told that the rest is not allowed, and the tries are written down."""
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    run = begin("Upload", owner=ann)
    assert ask(run, "file", UPLOAD).accepted
    op, before, ledger = operation(run, "file"), everything(), sandbox.ledger()
    forbidden = [verb for verb in VERBS if verb != "look_up"]
    for verb in forbidden:
        with pytest.raises(Denied):
            VERBS[verb](op, ben)
    assert (everything(), sandbox.ledger()) == (before, ledger)
    assert denied(op) == [(verb, ben.pk) for verb in forbidden]
    assert "file" in page(ben, run)


def test_what_does_not_exist_is_not_found_whatever_is_asked(ann: User) -> None:
    for verb in VERBS.values():
        with pytest.raises(TaskNotFound):
            verb(Operation(pk=999_999, task_id=999_999), ann)


@pytest.mark.parametrize("action", [UPLOAD, BLIND])
def test_a_provider_that_cannot_cancel_is_said_so_and_what_it_does_stays_active(
    sandbox: SandboxClient, in_thread: InThread, ann: User, action: str
) -> None:
    """The stop claims no more than it can: it is listed as open, and the page says that it cannot be cancelled."""
    run = begin("Send", owner=ann)
    sandbox.hold("received", "job")
    in_thread(ask, run, "job", action)
    sandbox.wait("received", "job")
    report = stop(run.task_id, by=ann)
    work()
    told = seen(run, "job")
    assert report.open == (told.operation.pk,)
    assert (told.label, told.cancellation) == (Label.STILL_ACTIVE, Cancellation.UNSUPPORTED)
    assert "Cancelling it is not supported by this provider." in page(ann, run)
    assert not Attempt.objects.filter(verb="cancel").exists()
    sandbox.release("received", "job")
    sending.close()
    assert seen(run, "job").label is Label.COMPLETED_BEFORE
    assert sandbox.writes(task="job") == 1
