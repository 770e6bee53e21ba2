"""R37: who has left is told when an unknown outcome of a task that is over is settled: once, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import database, unseen
from agentstop.models import Look, Operation, Task, Unseen
from agentstop.permissions import owner_or_permission
from agentstop.runs import Run, begin
from agentstop.settle import Heard, record
from agentstop.signals import unknowns_settled
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.turns import FollowUps
from tests.conftest import InThread

pytestmark = pytest.mark.usefixtures("tools")

Told = list[dict[str, Any]]


@pytest.fixture
def told() -> Iterator[Told]:
    heard: Told = []

    def hear(sender: type, **facts: Any) -> None:
        heard.append({name: facts[name] for name in ("task", "operations", "people")})

    unknowns_settled.connect(hear, sender=Task)
    yield heard
    unknowns_settled.disconnect(hear, sender=Task)


def lost(run: Run, *keys: str) -> list[int]:
    for key in keys:
        run.call("chat.post", connector="tools", key=key, send=lambda op: 1 / 0)
    return list(Operation.objects.filter(key__in=keys).order_by("pk").values_list("pk", flat=True))


def settle(*operations: int, claim: Claim = Claim.SUCCEEDED) -> None:
    for operation in operations:
        record(operation, [Heard(claim, Source.READ_BACK, database.now())])


def later() -> None:
    """As if the burst were over."""
    Unseen.objects.update(settled_at=database.now() - 2 * unseen.QUIET)


def test_a_burst_is_told_once_when_nothing_more_comes_to_who_stopped_it_and_to_its_owner(
    told: Told, ann: User, olga: User
) -> None:
    run = begin("Report", owner=ann)
    first, second, _ = lost(run, "a", "b", "c")
    stop(run.task_id, by=olga)
    settle(first)
    settle(second, claim=Claim.FAILED)
    assert (unseen.tell(), told) == (0, [])
    later()
    assert (unseen.tell(), unseen.tell()) == (1, 0)
    assert told == [{"task": run.task_id, "operations": (first, second), "people": (olga.pk, ann.pk)}]
    assert not Unseen.objects.exists()


def test_two_workers_tell_of_it_once(told: Told, ann: User, in_thread: InThread) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    stop(run.task_id, by=ann)
    settle(operation)
    later()
    assert sum(future.result(60) for future in [in_thread(unseen.tell) for _ in range(4)]) == 1
    assert len(told) == 1


def breaks_for_secrets(user: Any, permission: str, task: Task) -> bool:
    if task.title == "Secret":
        raise LookupError("the host's rule is broken")
    return owner_or_permission(user, permission, task)


def test_where_the_hosts_rule_raises_the_others_are_told_all_the_same(
    told: Told,
    ann: User,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(unseen, "_failed", {})
    runs = [begin(title, owner=ann) for title in ("Secret", "Report")]
    for run in runs:
        [operation] = lost(run, f"of {run.task_id}")
        stop(run.task_id, by=ann)
        settle(operation)
    later()
    settings.AGENTSTOP_MAY = f"{__name__}.breaks_for_secrets"
    monkeypatch.setattr("agentstop.turns.IDLE", 0.0)
    FollowUps().turn()
    assert [each["task"] for each in told] == [runs[1].task_id]
    assert list(Unseen.objects.values_list("task", flat=True)) == [runs[0].task_id]  # told once the rule is mended
    actions = [getattr(each, "action", "") for each in caplog.records]
    assert (actions.count("unseen_failed"), actions.count("follow_up_failed")) == (1, 0)


def test_where_it_always_raises_a_turn_full_of_those_holds_back_nothing_that_comes_later(
    told: Told, ann: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "_failed", {})
    monkeypatch.setattr(unseen, "MOST", 2)
    runs = [begin(title, owner=ann) for title in ("Secret", "Secret", "Report")]
    for run in runs:
        [operation] = lost(run, f"of {run.task_id}")
        stop(run.task_id, by=ann)
        settle(operation)
    later()
    settings.AGENTSTOP_MAY = f"{__name__}.breaks_for_secrets"
    assert [unseen.tell() for _ in range(3)] == [0, 1, 0]
    settings.AGENTSTOP_MAY = "agentstop.permissions.owner_or_permission"
    monkeypatch.setattr(unseen, "_failed", {})
    assert unseen.tell() == 2


def test_the_worker_follows_up_before_it_tells(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of telling that no task is to blame for costs no look-up and no cancel request."""
    done: list[str] = []

    def start(most: int) -> list[Any]:
        done.append("started")
        return []

    def tell() -> int:
        done.append("told")
        raise LookupError("no such table")

    monkeypatch.setattr("agentstop.reconcile.start", start)
    monkeypatch.setattr(unseen, "tell", tell)
    monkeypatch.setattr("agentstop.turns.IDLE", 0.0)
    FollowUps().turn()
    assert done == ["started", "told"]
    assert "the follow-up work failed; trying again" in caplog.text


def test_who_had_the_page_open_is_told_nothing(told: Told, ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    stop(run.task_id, by=olga)
    unseen.looked(run.task_id, ann.pk)
    settle(operation)
    later()
    unseen.looked(run.task_id, ann.pk)  # still there, after it was settled
    unseen.tell()
    assert [each["people"] for each in told] == [(olga.pk,)]
    assert Look.objects.count() == 1


def test_who_left_before_it_was_settled_is_told(told: Told, ann: User) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    stop(run.task_id, by=ann)
    unseen.looked(run.task_id, ann.pk)
    Look.objects.update(seen_at=database.now() - timedelta(hours=1))
    settle(operation)
    later()
    unseen.tell()
    assert [each["people"] for each in told] == [(ann.pk,)]


def test_what_is_unknown_again_is_not_told_as_settled(told: Told, ann: User) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    stop(run.task_id, by=ann)
    settle(operation)
    Operation.objects.filter(pk=operation).update(state="unknown")
    later()
    assert (unseen.tell(), told) == (0, [])


def test_while_the_task_runs_nobody_has_left_anything(told: Told, ann: User) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    settle(operation)
    assert not Unseen.objects.exists()


def test_where_no_host_listens_nothing_is_kept(ann: User) -> None:
    run = begin("Report", owner=ann)
    [operation] = lost(run, "a")
    stop(run.task_id, by=ann)
    settle(operation)
    unseen.looked(run.task_id, ann.pk)
    assert not Unseen.objects.exists() and not Look.objects.exists()
