"""Both sides of the race: a stop at each point of an operation's way, before and after it was passed.

R1, R7, R12, R15, R17.

The sandbox's ledger is the referee. Right after the stop, and at the end, the label must agree with it.
"""

from __future__ import annotations

import pytest

from agentstop.states import Cancellation
from agentstop.words.sentences import ANSWERED_BEFORE
from tests.races.conftest import Play
from tests.races.scene import (
    ACTIVE,
    COMPLETED_BEFORE,
    DONE,
    GIVEN_UP,
    NEVER,
    NOT_SENT,
    REPORT,
    STILL_ACTIVE,
    UNKNOWN,
    Row,
)
from tests.races.senders import Got, Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

ROWS = [
    Row("P0 prepared, gate not reached", "", frozenset({NOT_SENT}), NEVER),
    Row("P1 gate open, not committed", "P1", frozenset({STILL_ACTIVE, NOT_SENT, COMPLETED_BEFORE}), NEVER | DONE),
    Row("P2 committed, no byte sent", "P2", ACTIVE, NEVER),
    Row("P3 sent, not accepted", "received", ACTIVE, DONE),
    Row("P3 a job", "received", ACTIVE, GIVEN_UP, REPORT, Cancellation.WAITING, ("working",)),
    Row("P4 accepted, id not returned", "accepted", ACTIVE, DONE, cancellation=Cancellation.UNSUPPORTED),
    Row("P4 a job", "accepted", ACTIVE, GIVEN_UP, REPORT, Cancellation.WAITING, ("working",)),
    Row("P5 id returned", "working", ACTIVE, GIVEN_UP, REPORT, Cancellation.REQUESTED),
    Row("P5 too late", "working", ACTIVE, DONE, REPORT, Cancellation.REQUESTED, switches={"refuse_cancel": True}),
    Row("P6 effect done, response not delivered", "effect", ACTIVE, DONE),
    Row("P7 response lost for ever", "effect", ACTIVE, DONE, switches={"lose_response": True}, completes=False),
    Row("P8 response read, not admitted", "P8", ACTIVE, DONE),
]

EACH = [next(row for row in ROWS if row.point.startswith(f"P{n}")) for n in range(9)]  # one of each point

every_row = pytest.mark.parametrize("row", ROWS, ids=[row.point for row in ROWS])
each_point = pytest.mark.parametrize("row", EACH, ids=[row.point for row in EACH])


@every_row
def test_a_stop_before_the_point_is_passed(row: Row, sender: Sender, play: Play) -> None:
    scene = play(row, sender)
    scene.bring_to_the_point()
    report = scene.stop()
    seen = scene.seen
    assert seen.label in row.shown
    assert row.cancellation in (None, seen.cancellation)
    first = row.at == "P1" and seen.label is COMPLETED_BEFORE  # the press had to wait, and others were quicker
    assert seen.operation.pk in report.open + report.never_sent or first

    if row.at == "working":
        scene.follow_up_once()
    if row.at == "P2":  # until it has heard, its pass is good, and sending would be truthful too
        sender.hear(scene.run)
    scene.pass_the_point()
    outcome = sender.got("main").outcome
    assert outcome == "ignored" or (first and outcome == "accepted")
    scene.beside.check()
    sender.rest()
    scene.follow_up()
    scene.release_the_rest()
    assert len(scene.run.context()) == (outcome == "accepted")
    if row.at == "P8":  # it was read before the press, whenever it is stored
        assert ANSWERED_BEFORE in scene.seen.reading.evidence
    scene.check_the_end()


@every_row
def test_a_stop_after_the_point_was_passed(row: Row, sender: Sender, play: Play) -> None:
    scene = play(row, sender)
    scene.bring_to_the_point()
    scene.pass_the_point()
    scene.release_the_rest()
    assert sender.got("main") == Got("accepted" if row.completes else "failed")
    scene.stop()
    seen = scene.seen
    if row.completes:
        assert seen.label is COMPLETED_BEFORE
        assert ANSWERED_BEFORE in seen.reading.evidence
    else:
        assert seen.label is UNKNOWN
    scene.beside.check()
    sender.rest()
    scene.follow_up()
    assert len(scene.run.context()) == int(row.completes)
    scene.check_the_end(DONE)
    assert scene.counts()["submits"] == 1
