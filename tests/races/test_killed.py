"""The process that sends is killed, or frozen past its lease, at each point: the lease decides, then the provider.

R8, R11, R20, R22.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from django.db import connection, transaction

from agentstop import database
from agentstop.models import Attempt, Operation, Task
from agentstop.states import Claim
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import claims, task_of
from tests.passing import let_pass
from tests.races.conftest import Play, Start
from tests.races.scene import (
    ACTIVE,
    DONE,
    GIVEN_UP,
    NEVER,
    NOT_SENT,
    REPORT,
    STILL_ACTIVE,
    UNKNOWN,
    Row,
    wait_for_the_lock,
)
from tests.races.senders import Got, Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

SILENT = frozenset({UNKNOWN})
LEASE = 3.0  # of what is frozen, which is long before its first heartbeat: these tests wait for its end
LOSES = {"lose_response": True}

# `shown`: when the lease of the killed process is over.
KILLED = [
    Row("P2 committed, no byte sent", "P2", SILENT, NEVER),
    Row("P3 sent, not accepted", "received", SILENT, DONE),
    Row("P3 a job", "received", SILENT, GIVEN_UP, REPORT, also_hold=("working",)),
    Row("P4 accepted, id not returned", "accepted", SILENT, DONE),
    Row("P4 a job", "accepted", SILENT, GIVEN_UP, REPORT, also_hold=("working",)),
    Row("P5 id returned", "working", ACTIVE, GIVEN_UP, REPORT),
    Row("P6 effect done, response not delivered", "effect", SILENT, DONE),
    Row("P7 response lost, which is not recorded", "P8", SILENT, DONE, switches=LOSES),
    Row("P8 response read, not admitted", "P8", SILENT, DONE),
]


@pytest.mark.parametrize("row", KILLED, ids=[row.point for row in KILLED])
def test_a_killed_sender_is_noticed_and_the_provider_asked(
    row: Row, start: Start, this_process: Sender, play: Play
) -> None:
    killed = start()
    scene = play(row, killed, beside=this_process)
    scene.bring_to_the_point()
    scene.stop()
    assert scene.seen.label is STILL_ACTIVE
    killed.kill()
    let_pass(scene.task, 60)
    assert scene.seen.label in row.shown

    if row.at == "working":
        scene.follow_up_once()
    if not row.own:
        scene.pass_the_point()
    scene.wait_for_the_provider()
    scene.beside.check()
    scene.follow_up()
    scene.release_the_rest()
    assert scene.run.context() == []
    scene.check_the_end()


def test_a_sender_killed_in_the_open_gate_leaves_nothing(start: Start, this_process: Sender, play: Play) -> None:
    """P1."""
    killed = start()
    scene = play(Row("P1 gate open, not committed", "P1", frozenset(), NEVER), killed, beside=this_process)
    scene.bring_to_the_point()

    def kill() -> None:
        wait_for_the_lock()
        killed.kill()

    report = scene.stop(meanwhile=kill)
    assert report.stopped and report.open == ()
    assert not Operation.objects.filter(task=scene.task, key="main").exists()
    scene.beside.check()
    assert scene.sandbox.ledger(task="main")["effects"] == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file's lock is its process's: the next test")
def test_a_sender_frozen_in_the_open_gate_holds_up_no_stop(
    start: Start, this_process: Sender, play: Play, in_thread: InThread
) -> None:
    """P1. The gate's one statement waits for the task's lock at the server, which ends and commits it by itself."""
    frozen = start(settling=0.0, LEASE=LEASE, LEASE_MARGIN=0.5)
    scene = play(Row("P1 gate open, not committed", "P1", ACTIVE, NEVER), frozen, beside=this_process)
    scene.beside.prepare()
    with task_locked(scene.task, in_thread) as unlock:
        scene.send()
        wait_for_the_lock()
        frozen.freeze()

        def let_the_server_go_on() -> None:
            wait_for_the_lock(2)  # whoever presses stands behind the gate
            unlock()

        report = scene.stop(meanwhile=let_the_server_go_on)
    assert report.open == (scene.seen.operation.pk,)
    eventually(lambda: lease_is_over(scene.task), True)
    assert scene.seen.label is UNKNOWN
    scene.beside.check()
    scene.follow_up()
    assert scene.seen.label is NOT_SENT

    frozen.thaw()
    assert frozen.got("main").outcome == "ignored"
    frozen.rest()
    assert scene.counts()["submits"] == 0
    assert scene.run.context() == []
    scene.check_the_end()


@contextmanager
def task_locked(task: int, in_thread: InThread) -> Iterator[Callable[[], None]]:
    """Somebody else holds the task's lock until the block is left, or what it gives was called."""
    locked, unlocked = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            database.locked(Task.objects.filter(pk=task)).get()
            locked.set()
            assert unlocked.wait(HANG_GUARD)

    holding = in_thread(hold)
    assert locked.wait(HANG_GUARD)
    try:
        yield unlocked.set
    finally:
        unlocked.set()
        holding.result(HANG_GUARD)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a server ends the statement: the test before")
def test_on_sqlite_a_sender_frozen_in_the_open_gate_holds_up_whoever_writes_until_it_goes_on(
    start: Start, this_process: Sender, play: Play
) -> None:
    """P1. It holds the file's lock in its sleep: a press waits, nothing says stopped meanwhile, and pages are read."""
    frozen = start()
    ends = NEVER | DONE
    scene = play(Row("P1 gate open, not committed", "P1", frozenset(), ends), frozen, beside=this_process)
    scene.bring_to_the_point()
    frozen.freeze()

    def look_and_wake() -> None:
        try:
            assert file_is_locked()
            assert 'data-state="active"' in scene.beside.page()
            frozen.thaw()
            assert file_is_locked()  # it is awake, and still in its transaction
        finally:
            frozen.thaw()
            frozen.go()

    report = scene.stop(meanwhile=look_and_wake)
    assert report.stopped and report.open in ((), (scene.seen.operation.pk,))  # the press may have been the faster one
    scene.beside.check()
    # The press waits at the file like any writer: what is awake again may be through with all of it before.
    outcome = frozen.got("main").outcome
    assert outcome in {"ignored", "accepted"}
    frozen.rest()
    scene.follow_up()
    assert len(scene.run.context()) == (outcome == "accepted")
    scene.check_the_end()


def file_is_locked() -> bool:
    with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            assert "database is locked" in str(error)
            return True
    return False


# What one look at the provider shows while the sender is frozen and the provider holds its request.
AT_FIRST = {"received": UNKNOWN, "accepted": STILL_ACTIVE}

# `shown`: when the lease of the frozen process is over.
FROZEN = [
    Row("P2 committed, no byte sent", "P2", SILENT, NEVER),
    Row("P3 sent, not accepted", "received", SILENT, DONE),
    Row("P3 a job", "received", SILENT, GIVEN_UP, REPORT, also_hold=("working",)),
    Row("P4 accepted, id not returned", "accepted", SILENT, DONE),
    Row("P4 a job", "accepted", SILENT, GIVEN_UP, REPORT, also_hold=("working",)),
    Row("P5 id returned", "P5", ACTIVE, GIVEN_UP, REPORT, also_hold=("working",)),
    Row("P6 effect done, response not delivered", "effect", SILENT, DONE),
    Row("P7 response lost for ever", "effect", SILENT, DONE, switches=LOSES),
    Row("P8 response read, not admitted", "P8", SILENT, DONE),
]


@pytest.mark.parametrize("row", FROZEN, ids=[row.point for row in FROZEN])
def test_a_sender_asleep_past_its_lease_sends_nothing_when_it_wakes(
    row: Row, start: Start, this_process: Sender, play: Play
) -> None:
    frozen = start(settling=HANG_GUARD if row.at == "received" else 0.0, LEASE=LEASE, LEASE_MARGIN=0.5)
    scene = play(row, frozen, beside=this_process)
    scene.bring_to_the_point()
    frozen.freeze()
    scene.stop()
    assert scene.seen.label is STILL_ACTIVE or lease_is_over(scene.task)
    eventually(lambda: lease_is_over(scene.task), True)
    assert scene.seen.label in row.shown
    scene.beside.check()
    if row.at in AT_FIRST:
        scene.follow_up_once()
        assert scene.seen.label is AT_FIRST[row.at]
        scene.pass_the_point()
        scene.wait_for_the_provider()
    scene.follow_up()
    settled = scene.seen.label, scene.counts()["submits"]
    scene.check_the_end()

    frozen.thaw()
    if row.at not in AT_FIRST:
        scene.pass_the_point()
    assert frozen.got("main").outcome in {"ignored", "failed"}
    frozen.rest()
    scene.release_the_rest()
    assert (scene.seen.label, scene.counts()["submits"]) == settled
    assert scene.run.context() == []
    scene.check_the_end()


def lease_is_over(task: int) -> bool:
    attempt = Attempt.objects.get(operation__task=task, operation__key="main", verb="submit")
    return attempt.lease_until < database.now()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="nothing takes a file's lock from one who is frozen")
def test_a_sender_frozen_within_its_commit_holds_up_no_stop(start: Start, this_process: Sender, play: Play) -> None:
    """P8, R5. It holds the lock of its task, and its database ends that: awake again it stores the receipt anew."""
    frozen = start()
    scene = play(Row("P8 within the commit", "P8 locked", ACTIVE, DONE), frozen, beside=this_process)
    scene.bring_to_the_point()
    frozen.freeze()
    scene.stop(meanwhile=wait_for_the_lock)
    assert scene.seen.label is STILL_ACTIVE
    scene.beside.check()
    frozen.thaw()
    scene.pass_the_point()
    assert frozen.got("main").outcome == "ignored"
    frozen.rest()
    assert scene.run.context() == []
    scene.check_the_end()


def test_what_a_sleeper_did_not_send_may_be_sent_by_another(start: Start, this_process: Sender, play: Play) -> None:
    """P2."""
    frozen = start(settling=0.0, LEASE=LEASE, LEASE_MARGIN=0.5)
    row = Row("P2 committed, no byte sent", "P2", SILENT, frozenset())
    scene = play(row, frozen, beside=this_process)
    scene.bring_to_the_point()
    frozen.freeze()
    eventually(lambda: scene.seen.label, UNKNOWN)
    scene.follow_up()
    assert scene.seen.label is NOT_SENT
    this_process.start("main", scene.run, row.action, row.args)
    assert this_process.got("main") == Got("accepted")

    frozen.thaw()
    frozen.go()
    assert frozen.got("main") == Got("failed")
    frozen.rest()
    assert scene.counts() == {"submits": 1, "reads": 1, "cancels": 0, "writes": 1}
    assert (Claim.UNSENT, "sender") in claims(scene.seen.operation.pk)
    assert Attempt.objects.filter(operation__task=scene.task, operation__key="main").count() == 2
    assert task_of(scene.run).live_run == scene.run.number
