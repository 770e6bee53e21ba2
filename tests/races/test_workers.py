"""The worker that cancels is killed or frozen while its request is on the way, or answered and not recorded (R21, R22).

Another worker takes over when its lease is over. What may have arrived is asked again, and the end is the provider's.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agentstop import database, reconcile
from agentstop.models import Operation
from agentstop.states import Cancellation
from tests.passing import let_pass
from tests.races.conftest import Play, Start
from tests.races.scene import ACTIVE, DONE, GIVEN_UP, REPORT, STILL_ACTIVE, Row, Scene
from tests.races.senders import OtherProcess, Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

LEASES = 600.0  # seconds after which those of the worker and of its request are over


@dataclass(frozen=True, slots=True)
class Turn:
    """What happens to the job that is to be cancelled, where the worker is then, and what its successor is told."""

    row: Row
    at: str  # the sandbox's `cancel`, or our own P8: it has read the reply
    then: Cancellation


def turn(point: str, at: str, then: Cancellation, **switches: object) -> Turn:
    """The job is given up, unless the switches keep it going."""
    ends = GIVEN_UP if then is Cancellation.CONFIRMED else DONE
    return Turn(Row(point, "working", ACTIVE, ends, REPORT, Cancellation.REQUESTED, switches=switches), at, then)


TURNS = [
    turn("P9 request being sent", "cancel", Cancellation.CONFIRMED),
    turn("P10 an error at the provider, not recorded", "P8", Cancellation.CONFIRMED, cancel_error=1),
    turn("P10 refused, not recorded", "P8", Cancellation.REFUSED, refuse_cancel=True),
    turn("P11 acknowledged, not recorded", "P8", Cancellation.ACKNOWLEDGED, ack_and_complete=True),
]
every_turn = pytest.mark.parametrize("turn", TURNS, ids=[turn.row.point for turn in TURNS])


def held_worker(turn: Turn, scene: Scene, worker: OtherProcess, *, once: bool) -> None:
    """The task is stopped, and the worker is where the turn has it; nothing is claimed meanwhile."""
    scene.bring_to_the_point()
    scene.stop()
    if turn.at == "P8":
        worker.hold("P8")
    else:
        scene.sandbox.hold(turn.at, "main")
    worker.work(once=once)
    if turn.at == "P8":
        worker.wait_at("P8")
    else:
        scene.sandbox.wait(turn.at, "main")
    assert_nothing_is_claimed(scene)


def assert_nothing_is_claimed(scene: Scene) -> None:
    assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, Cancellation.SENT)
    scene.beside.reload()


def another_worker(turn: Turn, scene: Scene) -> None:
    """Nobody asks again before the lease is over; then it is taken over, and comes to its end."""
    pk = scene.seen.operation.pk
    Operation.objects.filter(pk=pk).update(follow_up_at=database.now())  # as it is for a look, when time passes
    assert reconcile.work(among=[pk]) == 1
    assert scene.counts()["cancels"] == 1
    assert_nothing_is_claimed(scene)
    let_pass(scene.task, LEASES)
    assert_nothing_is_claimed(scene)
    if turn.at == "cancel":
        scene.sandbox.release("cancel", "main")
    scene.follow_up_once()
    assert scene.seen.cancellation is turn.then
    if turn.then is not Cancellation.CONFIRMED:
        assert scene.seen.label is STILL_ACTIVE
        scene.pass_the_point()
    scene.follow_up()
    scene.beside.check()
    assert scene.counts()["cancels"] == 2
    scene.check_the_end()


@every_turn
def test_what_a_killed_worker_was_about_is_done_by_another(
    turn: Turn, start: Start, this_process: Sender, play: Play
) -> None:
    scene, killed = play(turn.row, this_process), start()
    held_worker(turn, scene, killed, once=False)
    killed.kill()
    another_worker(turn, scene)


@every_turn
def test_a_worker_that_wakes_after_its_lease_changes_nothing(
    turn: Turn, start: Start, this_process: Sender, play: Play
) -> None:
    scene, frozen = play(turn.row, this_process), start()
    held_worker(turn, scene, frozen, once=True)
    frozen.freeze()
    another_worker(turn, scene)
    ended = scene.seen.label, scene.counts()
    frozen.thaw()
    frozen.go()
    frozen.worked()
    assert (scene.seen.label, scene.counts()) == ended
    assert reconcile.work(among=[scene.seen.operation.pk]) == 0
    scene.check_the_end()
