"""P9 and a new run: a stop's request to cancel that is under way never gives up what a later run sends with the key.

R9, R11.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import database, gate, reconcile, refusals
from agentstop.exceptions import InFlight
from agentstop.models import Operation
from agentstop.runs import Run, begin
from agentstop.testing.barriers import Barrier, held_at
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import task_of
from tests.races.conftest import Play, Start
from tests.races.scene import ACTIVE, NOT_SENT, Row, Scene
from tests.races.senders import Got, Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

BY_KEY = "report.by_key"
ROW = Row("P2 committed, no byte sent", "P2", ACTIVE, frozenset(), BY_KEY)
GUARD = "AND (op.cancel_lease_until IS NULL OR op.cancel_lease_until < {now})"


class HeldRequest:
    """A worker's turn in this process, whose request to cancel is recorded and held before its first byte."""

    def __init__(self, in_thread: InThread) -> None:
        self._there = threading.Event()
        self.barrier = Barrier("main", self._there.set)
        self._in_thread = in_thread

    def begin(self) -> None:
        self.turn: Future[int] = self._in_thread(reconcile.work)
        assert self._there.wait(HANG_GUARD)

    def go_on(self) -> None:
        self.barrier.open()
        assert self.turn.result(HANG_GUARD) == 1


@pytest.fixture
def request_(in_thread: InThread) -> Iterator[HeldRequest]:
    held = HeldRequest(in_thread)
    with held_at("P9", held.barrier):
        yield held


@pytest.fixture
def stopped(play: Play, this_process: Sender) -> Scene:
    """The gate has let it pass, and no byte has left: it can be cancelled by its key all the same."""
    scene = play(ROW, this_process)
    scene.bring_to_the_point()
    scene.stop()
    scene.beside.check()
    return scene


def not_sent(scene: Scene) -> None:
    """Its sender hears of the stop and sends nothing, which is proof."""
    scene.sender.hear(scene.run)
    scene.pass_the_point()
    assert scene.sender.got("main") == Got("ignored")
    eventually(lambda: scene.seen.label, NOT_SENT)


def send(run: Run, sender: Sender) -> None:
    sender.start("main", run, BY_KEY, ROW.args)


def effect(sandbox: SandboxClient) -> Any:
    [effect] = sandbox.ledger(task="main")["effects"]
    return effect["state"]


def test_while_the_request_is_under_way_its_key_is_not_sent_again(
    stopped: Scene, request_: HeldRequest, sandbox: SandboxClient, ann: User
) -> None:
    """P9, R4."""
    request_.begin()
    not_sent(stopped)
    again = begin(task_of(stopped.run), by=ann)
    with pytest.raises(InFlight, match="a request to cancel it"):
        again.call(BY_KEY, ROW.args, connector="sandbox", key="main")
    request_.go_on()
    send(again, stopped.sender)
    assert stopped.sender.got("main") == Got("accepted")
    assert effect(sandbox) == "succeeded"
    assert stopped.counts()["submits"] == 1


def test_a_worker_that_slept_past_its_request_does_not_send_it(
    stopped: Scene, start: Start, sandbox: SandboxClient, ann: User
) -> None:
    """P9, R4."""
    frozen = start(DEADLINE=1.0, LEASE_MARGIN=0.5)
    frozen.hold("P9")
    frozen.work(once=True)
    frozen.wait_at("P9")
    frozen.freeze()
    not_sent(stopped)
    eventually(lambda: may_arrive(stopped), False)
    again = begin(task_of(stopped.run), by=ann)
    sandbox.hold("working", "main")
    send(again, stopped.sender)
    sandbox.wait("working", "main")

    frozen.thaw()
    frozen.go()
    frozen.worked()
    assert (stopped.counts()["cancels"], effect(sandbox)) == (0, "running")
    sandbox.release("working", "main")
    assert stopped.sender.got("main") == Got("accepted")


def may_arrive(scene: Scene) -> bool:
    until = Operation.objects.get(task=scene.task, key="main").cancel_lease_until
    return until is not None and until >= database.now()


def test_without_that_it_gives_up_what_the_new_run_has_sent(
    stopped: Scene, request_: HeldRequest, sandbox: SandboxClient, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P9. So that the first can fail."""
    without = gate.MAY_ADVANCE.replace(GUARD, "")
    assert without != gate.MAY_ADVANCE
    monkeypatch.setattr(gate, "MAY_ADVANCE", without)
    monkeypatch.setattr(refusals, "_may_still_be_cancelled", lambda operation: False)
    request_.begin()
    not_sent(stopped)
    again = begin(task_of(stopped.run), by=ann)
    sandbox.hold("working", "main")
    send(again, stopped.sender)
    sandbox.wait("working", "main")
    request_.go_on()
    assert effect(sandbox) == "cancelled"
    sandbox.release("working", "main")
    assert stopped.sender.got("main").outcome == "failed"
