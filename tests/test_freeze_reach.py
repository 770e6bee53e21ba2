"""R45: a freeze reaches every process, and every task, those that are yet to begin included."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone

from agentstop import database, frozen, gate, lifecycle, request
from agentstop import freeze as freezing
from agentstop.exceptions import Frozen
from agentstop.freeze import complete, freeze, in_force, unfreeze
from agentstop.frozen import Known
from agentstop.models import Decision, Freeze, FreezeClock, Task
from agentstop.outcomes import Outcome
from agentstop.passes import Pass
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.turns import FollowUps
from agentstop.verify import differences
from tests.apart import waiting_for_locks
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "the provider double-posts"
OLD = Known(0, ())  # what a process knows that has read nothing since before the first freeze


@pytest.fixture(autouse=True)
def two_connectors(settings: Any) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "chat": {}}


def call(run: Run, key: str = "k", *, connector: str = "tools") -> Outcome:
    return run.call("work", connector=connector, key=key, send=lambda op: "done")


def wish(run: Run, key: str = "k") -> request.Request:
    return request.make(run.task_id, run.number, "work", {}, {"connector": "tools", "key": key})


def knowing_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has read what is frozen before there was anything, and thinks that it may go by that."""
    monkeypatch.setitem(frozen._known, database.alias(), OLD)


def passes(run: Run, key: str = "k") -> bool:
    """Whether the gate's statement alone lets it leave, without a second look."""
    return isinstance(gate.try_gate(wish(run, key)), Pass)


# What a process knows


def test_a_process_that_has_not_heard_of_it_is_refused_reads_and_refuses(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = begin("x", owner=ann), begin("another", owner=ann)
    freeze(connector="tools", action="work", by=olga, reason=WHY)
    knowing_nothing_new(monkeypatch)
    assert not passes(run)
    with pytest.raises(Frozen):
        gate.open_gate(wish(run))
    knowing_nothing_new(monkeypatch)
    assert call(other, connector="chat").accepted  # refused once, and passed after a look
    assert Decision.objects.filter(verb="refuse").count() == 1


def test_without_the_column_it_would_send(ann: User, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    run = begin("x", owner=ann)
    freeze(by=olga, reason=WHY)
    knowing_nothing_new(monkeypatch)
    for name in ("POSTGRESQL", "SQLITE"):
        monkeypatch.setattr(gate, name, getattr(gate, name).replace("AND freeze_epoch <= %(epoch)s", ""))
    assert passes(run)


def test_a_process_that_has_not_heard_of_its_end_reads_before_it_refuses(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin("x", owner=ann)
    held = freeze(by=olga, reason=WHY)
    known = frozen.read(database.now())
    unfreeze(held, by=olga)
    monkeypatch.setitem(frozen._known, database.alias(), known)
    assert call(run).accepted
    assert not Decision.objects.filter(verb="refuse").exists()


def test_it_ends_by_itself(ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    held = freeze(by=olga, reason=WHY, until=timezone.now() + timedelta(hours=1))
    with pytest.raises(Frozen):
        call(run)
    Freeze.objects.update(until=database.now())
    assert call(run).accepted
    assert in_force() == []
    assert not unfreeze(held, by=olga)


def test_nothing_is_asked_of_the_database_while_nothing_has_changed(
    ann: User, olga: User, django_assert_num_queries: Any
) -> None:
    run = begin("x", owner=ann)
    unfreeze(freeze(by=olga, reason=WHY), by=olga)
    assert call(run, "first").accepted
    with django_assert_num_queries(1 if database.is_postgresql() else 4):  # BEGIN, two INSERTs, COMMIT
        assert passes(run, "second")


# Tasks that become active


def queued(ann: User) -> int:
    return lifecycle.create("queued", owner=ann).pk


def finished(ann: User) -> int:
    run = begin("finished", owner=ann)
    run.finish()
    return run.task_id


def stopped(ann: User) -> int:
    run = begin("stopped", owner=ann)
    stop(run.task_id, by=ann)
    return run.task_id


def running(ann: User) -> int:
    return begin("running", owner=ann).task_id


@pytest.mark.parametrize("before", [None, queued, finished, stopped, running])
def test_a_run_that_is_begun_under_a_freeze_does_not_escape(
    before: Callable[[User], int] | None, ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    task: int | str = before(ann) if before is not None else "new"
    held = freeze(by=olga, reason=WHY)
    knowing_nothing_new(monkeypatch)
    run = begin(task, by=ann)
    assert not passes(run)
    assert Task.objects.get(pk=run.task_id).freeze_epoch == held.epoch
    assert list(differences()) == []


def test_a_task_that_is_queued_or_spawned_under_a_freeze_does_not_escape(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = begin("parent", owner=ann)
    freeze(by=olga, reason=WHY)
    knowing_nothing_new(monkeypatch)
    assert not passes(begin("child", serves=[parent]))
    assert not passes(begin(lifecycle.create("queued", owner=ann)))


def test_a_task_that_was_paused_meanwhile_does_not_escape(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin("x", owner=ann)
    pause(run.task_id, by=ann)
    freeze(by=olga, reason=WHY)
    resume(run.task_id, by=ann)
    knowing_nothing_new(monkeypatch)
    assert not passes(run)


def test_a_freeze_of_an_owner_touches_nobody_elses_task(ann: User, ben: User, olga: User) -> None:
    mine, other = begin("x", owner=ann), begin("y", owner=ben)
    held = freeze(owner=ann, by=olga, reason=WHY)
    epochs = dict(Task.objects.values_list("pk", "freeze_epoch"))
    assert (epochs[mine.task_id], epochs[other.task_id]) == (held.epoch, 0)


def test_a_freeze_of_an_owner_whose_account_is_gone_holds_nobody(ann: User, ben: User, olga: User) -> None:
    freeze(owner=ben, by=olga, reason=WHY)
    ben.delete()
    assert call(begin("x", owner=ann)).accepted
    assert call(begin("nobody's")).accepted


def test_the_clock_goes_on_behind_every_epoch_that_was_known_before_a_backup_was_restored(
    ann: User, olga: User
) -> None:
    before = freeze(by=olga, reason=WHY).epoch
    assert before is not None
    FreezeClock.objects.update(epoch=0)
    Freeze.objects.all().delete()
    after = freeze(by=olga, reason=WHY).epoch
    assert after is not None
    assert after > before


# Being put in force


def test_it_is_in_force_only_after_the_last_task_and_waits_for_one_with_nothing_held(
    ann: User, ben: User, olga: User, in_thread: InThread
) -> None:
    """A task that somebody holds is waited for alone: whoever holds it can take any other task meanwhile."""
    if not database.is_postgresql():
        pytest.skip("SQLite has no row locks: whoever writes holds the file")
    first, second, third = (begin("x", owner=ann) for _ in range(3))
    locked, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            list(Task.objects.select_for_update(no_key=True).filter(pk=second.task_id))
            locked.set()
            assert go_on.wait(HANG_GUARD)
            list(Task.objects.select_for_update(no_key=True).filter(pk__in=[first.task_id, third.task_id]))

    holder = in_thread(hold)
    assert locked.wait(HANG_GUARD)
    freezing_it = in_thread(freeze, by=olga, reason=WHY)
    eventually(waiting_for_locks, 1)
    [pending] = in_force()
    assert pending.in_force_at is None
    assert set(Task.objects.exclude(freeze_epoch=0).values_list("pk", flat=True)) == {first.task_id, third.task_id}
    go_on.set()
    holder.result(HANG_GUARD)
    assert freezing_it.result(HANG_GUARD).in_force_at is not None
    assert set(Task.objects.values_list("freeze_epoch", flat=True)) == {pending.epoch}


def test_more_tasks_than_one_transaction_takes(ann: User, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "BATCH", 3)
    runs = [begin("x", owner=ann) for _ in range(10)]
    held = freeze(by=olga, reason=WHY)
    assert set(Task.objects.values_list("freeze_epoch", flat=True)) == {held.epoch}
    assert not any(passes(run) for run in runs)


def crashed(ann: User, olga: User, monkeypatch: pytest.MonkeyPatch) -> Freeze:
    """A freeze whose process died after its first batch."""
    reach = freezing._reach_batch

    def die(of_owner: bool, values: dict[str, Any]) -> list[int]:
        if values["after"]:
            raise KeyboardInterrupt
        return reach(of_owner, values)

    with monkeypatch.context() as patch:
        patch.setattr(freezing, "BATCH", 1)
        patch.setattr(freezing, "_reach_batch", die)
        with pytest.raises(KeyboardInterrupt):
            freeze(by=olga, reason=WHY)
    return Freeze.objects.get()


def reached(freeze: Freeze) -> int:
    return Task.objects.filter(freeze_epoch=freeze.epoch or 0).count()


@pytest.mark.parametrize("by", ["complete", "once", "turn"])
def test_one_whose_process_died_is_seen_as_not_in_force_and_is_completed(
    by: str, ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [begin("x", owner=ann) for _ in range(3)]
    left = crashed(ann, olga, monkeypatch)
    assert left.in_force_at is None
    assert [one.pk for one in in_force()] == [left.pk]
    assert reached(left) == 1
    if by == "complete":
        assert complete() == 1
    elif by == "once":
        call_command("agentstop_worker", "--once")
    else:
        monkeypatch.setattr("agentstop.turns.IDLE", 0.0)
        FollowUps().turn()
    assert Freeze.objects.get().in_force_at is not None
    assert reached(left) == len(runs)
    assert complete() == 0


def test_one_that_was_lifted_half_way_never_says_that_it_is_in_force(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin("x", owner=ann), begin("y", owner=ann)
    left = crashed(ann, olga, monkeypatch)
    assert unfreeze(left, by=olga)
    assert complete() == 0
    left.refresh_from_db()
    assert left.in_force_at is None
    assert call(run[0]).accepted


def test_verify_finds_a_task_that_it_has_not_reached(ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    held = freeze(by=olga, reason=WHY)
    Task.objects.update(freeze_epoch=0)
    [found] = differences()
    assert str(found) == f"task {run.task_id}: freeze_epoch is 0, the facts say {held.epoch}"
