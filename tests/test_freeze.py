"""R45: what an operator holds is held, whoever asks, with a reason and an end; who may, and what is kept of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from agentstop import compensate as compensating
from agentstop import database, frozen
from agentstop.accounts import account
from agentstop.compensate import compensate
from agentstop.exceptions import ConnectorNotConfigured, Denied, Frozen
from agentstop.freeze import NoSuchFreeze, afreeze, ain_force, aunfreeze, freeze, in_force, unfreeze
from agentstop.models import Attempt, Decision, Freeze, Operation
from agentstop.outcomes import Outcome
from agentstop.passes import Pass
from agentstop.reconcile import look_up_now
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from tests.apart import waiting_for_locks
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually

pytestmark = pytest.mark.django_db(transaction=True)

WHY = "the provider double-posts"


@pytest.fixture(autouse=True)
def two_connectors(settings: Any) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "chat": {}}


def call(run: Run, key: str = "k", *, connector: str = "tools", action: str = "work", wait: bool = True) -> Outcome:
    return run.call(action, connector=connector, key=key, send=lambda op: "done", wait=wait)


# What is held


SCOPES: dict[str, tuple[dict[str, str], set[tuple[str, str, str]]]] = {
    "everything": ({}, set()),
    "a connector": ({"connector": "chat"}, {("ann", "tools", "work"), ("ben", "tools", "work")}),
    "an action": ({"action": "post"}, {("ann", "tools", "work"), ("ben", "tools", "work")}),
    "an action there": ({"connector": "tools", "action": "post"}, {
        ("ann", "tools", "work"), ("ben", "tools", "work"), ("ann", "chat", "post"), ("ben", "chat", "post"),
    }),
    "an owner": ({"owner": "ann"}, {("ben", "tools", "work"), ("ben", "chat", "post")}),
    "an owner there": (
        {"owner": "ann", "connector": "chat"},
        {("ann", "tools", "work"), ("ben", "tools", "work"), ("ben", "chat", "post")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
def test_what_it_names_is_held_and_nothing_else(scope: str, ann: User, ben: User, olga: User) -> None:
    named, free = SCOPES[scope]
    users = {"ann": ann, "ben": ben}
    runs = {name: begin(name, owner=user) for name, user in users.items()}
    wanted: dict[str, Any] = {**named, **({"owner": users[named["owner"]]} if "owner" in named else {})}
    held = freeze(**wanted, by=olga, reason=WHY)
    passed = set()
    for name, run in runs.items():
        for connector, action in (("tools", "work"), ("chat", "post")):
            try:
                assert call(run, action, connector=connector, action=action).accepted
            except Frozen:
                continue
            passed.add((name, connector, action))
    assert passed == free
    assert unfreeze(held, by=olga)
    for run in runs.values():
        assert call(run, "post", connector="chat", action="post").accepted


def test_a_refusal_says_who_holds_it_since_when_why_and_until_when_and_is_on_record(ann: User, olga: User) -> None:
    run, until = begin("x", owner=ann), timezone.now() + timedelta(hours=2)
    held = freeze(connector="tools", by=olga, reason=WHY, until=until)
    for _ in range(3):
        with pytest.raises(Frozen) as refused:
            call(run)
    words = str(refused.value)
    for told in ("olga", WHY, "'work' at 'tools'", f"{until:%H:%M:%S}", f"{held.at:%H:%M:%S}", f"freeze {held.pk}"):
        assert told in words
    operation = Operation.objects.get()
    assert (refused.value.until, refused.value.operation) == (until, operation.pk)
    assert (operation.state, operation.attempts) == ("not_sent", 0)
    [refusal] = Decision.objects.filter(verb="refuse")
    assert (refusal.reason, refusal.count, refusal.detail) == ("frozen", 3, {"freeze": held.pk})
    assert list(differences()) == []


def test_no_caller_waits_for_its_end_and_the_run_goes_on(ann: User, olga: User) -> None:
    freeze(by=olga, reason=WHY)
    run = begin("x", owner=ann)
    for wait in (True, False):
        with pytest.raises(Frozen):
            call(run, wait=wait)
    with pytest.raises(Frozen):
        asyncio.run(run.acall("work", connector="tools", key="k", send=lambda op: "done"))
    with pytest.raises(Frozen), run.dispatch("work", connector="tools", key="k"):
        pytest.fail("entered")
    run.check()


def test_a_job_that_is_left_by_it_comes_back_to_the_same_run(ann: User, olga: User) -> None:
    held = freeze(by=olga, reason=WHY)
    run = begin("x", owner=ann)
    with pytest.raises(Frozen), run:
        call(run)
    run.check()
    unfreeze(held, by=olga)
    assert call(run).accepted


def test_what_was_done_before_is_answered_and_what_is_under_way_ends(ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    call(run, "before")
    with run.dispatch("work", connector="tools", key="under way") as op:
        freeze(by=olga, reason=WHY)
        assert op.succeeded("done").outcome == "accepted"
    again = begin(run.task_id)
    assert call(again, "before").result == "done"
    assert Attempt.objects.count() == 2


def test_listing_and_ending_are_not_held(ann: User, olga: User) -> None:
    freeze(by=olga, reason=WHY)
    run = begin("x", owner=ann)
    run.prepare("work", connector="tools", key="k")
    assert Operation.objects.get().state == "prepared"
    assert stop(run.task_id, by=ann).stopped


def test_undoing_is_held_looking_and_cancelling_are_not(sandbox: SandboxClient, ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    args = {"text": "report", "label": f"task {run.task_id}"}
    run.call("file.upload", args, connector="sandbox", key="up")
    operation = Operation.objects.get()
    stop(run.task_id, by=ann)
    held = freeze(connector="sandbox", by=olga, reason=WHY)
    with pytest.raises(Frozen):
        compensate(operation.pk, by=ann, reason="wrong file")
    assert sandbox.standing(task=f"task {run.task_id}") == 1
    [noted] = Decision.objects.filter(verb="compensate")
    assert (noted.effect, noted.by, noted.detail) == ("noted", ann, {"why": "frozen", "freeze": held.pk})
    assert look_up_now(operation.pk, by=ann)
    unfreeze(held, by=olga)
    assert compensate(operation.pk, by=ann).future.result(HANG_GUARD).state == "succeeded"
    assert list(differences()) == []


def test_an_undoing_under_way_is_waited_for(
    sandbox: SandboxClient, ann: User, olga: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is over, so that no freeze would reach it: without the clock it would leave after it was in force."""
    run = begin("x", owner=ann)
    run.call("file.upload", {"text": "report"}, connector="sandbox", key="up")
    stop(run.task_id, by=ann)
    first = Operation.objects.get()
    begun: list[Future[Freeze]] = []
    record = compensating._record

    def held_up(*args: Any) -> Pass:
        begun.append(in_thread(freeze, by=olga, reason=WHY))
        if database.is_postgresql():
            in_thread(eventually, waiting_for_locks, 1).result(HANG_GUARD)
        return record(*args)

    monkeypatch.setattr(compensating, "_record", held_up)
    compensate(first.pk, by=ann).future.result(HANG_GUARD)
    in_force_at = begun[0].result(HANG_GUARD).in_force_at
    assert in_force_at is not None
    assert Attempt.objects.latest("pk").passed_at < in_force_at


# Who may


def test_it_needs_its_own_right_and_what_was_denied_is_kept(ann: User, ben: User, olga: User) -> None:
    """R35, R36."""
    run = begin("x", owner=ann)
    held = freeze(connector="chat", by=olga, reason=WHY)
    for person in (ann, ben, AnonymousUser()):
        with pytest.raises(Denied):
            freeze(connector="tools", owner=ann, by=person, reason="mine", until=timezone.now() + timedelta(days=1))
        with pytest.raises(Denied):
            unfreeze(held, by=person, reason="let go")
    assert call(run).accepted
    with pytest.raises(Frozen):
        call(run, "p", connector="chat")
    denied = Freeze.objects.filter(effect="denied").order_by("pk")
    assert [(one.by, one.connector, one.owner, one.reason, one.lifts) for one in denied] == [
        (person, *rest)
        for person in (ann, ben, None)
        for rest in (("tools", ann, "mine", None), ("", None, "let go", held))
    ]
    olga.is_active = False
    with pytest.raises(Denied):
        freeze(by=olga, reason=WHY)


def test_code_may_and_is_named_by_its_policy(ann: User) -> None:
    run = begin("x", owner=ann)
    freeze(connector="tools", reason=WHY, policy="error rate")
    with pytest.raises(Frozen, match="held by error rate since"):
        call(run)


def test_lifting_twice_is_noted_with_who_and_why(ann: User, olga: User) -> None:
    held = freeze(by=olga, reason=WHY)
    assert unfreeze(held, by=olga, reason="repaired")
    assert not unfreeze(held.pk, policy="nightly")
    lifts = Freeze.objects.filter(lifts=held).order_by("pk")
    assert [(one.effect, one.by, one.policy, one.reason) for one in lifts] == [
        ("applied", olga, "", "repaired"),
        ("noted", None, "nightly", ""),
    ]
    held.refresh_from_db()
    assert held.lifted_at == lifts[0].at


def test_an_end_that_a_gate_has_found_holds_when_the_clock_goes_back(
    ann: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R45. A clock that jumps: one process let pass and another refused, and the page said a third thing."""
    run = begin("x", owner=ann)
    hour = timedelta(hours=1)
    held = freeze(by=olga, reason=WHY, until=database.now() + hour)
    with pytest.raises(Frozen):
        call(run)
    true = database.now
    monkeypatch.setattr(database, "now", lambda: true() + 2 * hour)
    assert [one.pk for one in in_force()] == []
    assert Freeze.objects.get(pk=held.pk).over_at is None  # who only looks ends nothing
    assert call(run).accepted
    monkeypatch.setattr(database, "now", true)
    assert call(run, "k2").accepted and in_force() == []
    monkeypatch.setattr(frozen, "_known", {})  # as another process, which has read nothing yet
    assert call(run, "k3").accepted
    assert not unfreeze(held, by=olga)
    assert list(differences()) == []


def test_an_end_that_only_pages_have_seen_comes_again(ann: User, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """R45: nothing has left meanwhile, so it holds as before."""
    run = begin("x", owner=ann)
    freeze(by=olga, reason=WHY, until=database.now() + timedelta(hours=1))
    true = database.now
    monkeypatch.setattr(database, "now", lambda: true() + timedelta(hours=2))
    assert in_force() == []
    monkeypatch.setattr(database, "now", true)
    with pytest.raises(Frozen):
        call(run)


def test_of_two_freezes_of_the_same_each_has_to_be_lifted(ann: User, olga: User) -> None:
    run = begin("x", owner=ann)
    first, second = freeze(by=olga, reason=WHY), freeze(connector="tools", by=olga, reason=WHY)
    unfreeze(first, by=olga)
    with pytest.raises(Frozen, match=f"freeze {second.pk}"):
        call(run)
    unfreeze(second, by=olga)
    assert call(run).accepted


# Bad input


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        ({"connector": "chta"}, ConnectorNotConfigured, "known: 'chat', 'tools'"),
        ({"connector": "chat", "reason": " "}, ValueError, "Say why"),
        ({"action": "a\x00b"}, ValueError, "NUL"),
        ({"action": "x" * 300}, ValueError, "300 characters"),
        ({"until": datetime(2100, 1, 1)}, ValueError, "time zone"),
        ({"until": timezone.now() - timedelta(seconds=1)}, ValueError, "is over"),
    ],
)
def test_what_would_hold_nothing_is_refused_with_a_reason(
    wanted: dict[str, Any], error: type[Exception], words: str, olga: User
) -> None:
    with pytest.raises(error, match=words):
        freeze(**{"reason": WHY, **wanted}, by=olga)
    assert not Freeze.objects.exists()


def test_an_action_that_its_connector_does_not_have_is_refused(sandbox: SandboxClient, olga: User) -> None:
    with pytest.raises(ValueError, match="Nothing was frozen"):
        freeze(connector="sandbox", action="file.uplaod", by=olga, reason=WHY)


def test_lifting_what_there_is_not_is_refused(ann: User, olga: User) -> None:
    held = freeze(by=olga, reason=WHY)
    unfreeze(held, by=olga)
    for number in (10**9, Freeze.objects.get(lifts=held).pk):
        with pytest.raises(NoSuchFreeze):
            unfreeze(number, by=olga)


def test_coroutines_have_the_same(ann: User, olga: User) -> None:
    async def main() -> list[int]:
        held = await afreeze(connector="tools", by=olga, reason=WHY)
        found = [one.pk for one in await ain_force()]
        assert await aunfreeze(held, by=olga)
        return found

    assert asyncio.run(main()) == [Freeze.objects.get(lifts=None).pk]
    assert account.load(begin("x", owner=ann).task_id) is not None
