"""P12: the provider confirms the cancel, then its answer to the send says that it was done (R16).

Both are kept and shown, as an unknown outcome; a later look-up decides, one way or the other.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from agentstop import reconcile
from agentstop.states import Cancellation
from agentstop.words.sentences import CONTRADICTORY
from tests.counted import eventually
from tests.observed import claims
from tests.races.conftest import Play, Start
from tests.races.scene import ACTIVE, CANCELLED, DONE, GIVEN_UP, REPORT, UNKNOWN, Row, Scene
from tests.races.senders import Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

# The request's answer is held at `effect` until the cancel is confirmed.
ROWS = [
    Row(
        "P12 and it was done",
        "working",
        ACTIVE,
        DONE,
        REPORT,
        also_hold=("effect",),
        switches={"confirm_and_complete": True},
    ),
    Row(
        "P12 and it was cancelled",
        "working",
        ACTIVE,
        GIVEN_UP,
        REPORT,
        also_hold=("effect",),
        switches={"answer_done": True},
    ),
]
every_row = pytest.mark.parametrize("row", ROWS, ids=[row.point for row in ROWS])


def confirmed(scene: Scene) -> None:
    """The worker's turn has cancelled it, and the provider has confirmed that."""
    scene.follow_up_once()
    assert (scene.seen.label, scene.seen.cancellation) == (CANCELLED, Cancellation.CONFIRMED)
    scene.beside.reload()


def contradicted(scene: Scene) -> None:
    """The answer to the send has come, too."""
    eventually(lambda: scene.seen.label, UNKNOWN)
    seen = scene.seen
    assert seen.reading.evidence == str(CONTRADICTORY)
    kept = claims(seen.operation.pk)
    assert {("cancelled", "provider"), ("succeeded", "provider")} <= set(kept)
    assert kept[-1] == ("succeeded", "provider")
    scene.beside.reload()
    scene.beside.check()


def decided(scene: Scene) -> None:
    scene.follow_up()
    assert claims(scene.seen.operation.pk)[-1][1] == "read_back"
    assert scene.run.context() == []
    scene.check_the_end()


@every_row
def test_a_success_after_a_confirmed_cancel_is_an_unknown_outcome(
    row: Row, sender: Sender, play: Play, ann: User
) -> None:
    scene = play(row, sender)
    scene.bring_to_the_point()
    scene.stop()
    assert sender.got("main").outcome == "ignored"
    assert scene.seen.cancellation is Cancellation.WAITING  # its id is known to nobody but the provider
    assert reconcile.look_up_now(scene.seen.operation.pk, by=ann)
    confirmed(scene)
    scene.pass_the_point()
    scene.release_the_rest()
    contradicted(scene)
    decided(scene)
    sender.rest()
    scene.check_the_end()


@every_row
def test_a_sender_that_wakes_with_the_success_after_the_confirmed_cancel(
    row: Row, start: Start, this_process: Sender, play: Play
) -> None:
    frozen = start(settling=0.0, LEASE=3.0, LEASE_MARGIN=0.5)
    scene = play(row, frozen, beside=this_process)
    scene.bring_to_the_point()
    frozen.freeze()
    scene.stop()
    eventually(lambda: scene.seen.label, UNKNOWN)
    scene.follow_up_once()
    confirmed(scene)
    scene.pass_the_point()
    scene.release_the_rest()
    frozen.thaw()
    assert frozen.got("main").outcome == "ignored"
    contradicted(scene)
    decided(scene)
    frozen.rest()
    scene.check_the_end()
