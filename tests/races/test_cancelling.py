"""What becomes of the cancel request that a stop passes on: delivered, failed, refused, lost, or only acknowledged.

R13, R14.
"""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from pytest_django.fixtures import Settings

from agentstop import connectors, reconcile
from agentstop.models import Receipt
from agentstop.states import Cancellation, Verb
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.postgres import free_port
from tests.races.conftest import Play
from tests.races.scene import ACTIVE, DONE, GIVEN_UP, REPORT, STILL_ACTIVE, Row, Scene
from tests.races.senders import Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

ROWS = {
    "P10 an error at the provider": (
        Row("P10", "working", ACTIVE, GIVEN_UP, REPORT, Cancellation.REQUESTED, switches={"cancel_error": 1}),
        Cancellation.REQUESTED,
        2,
    ),
    "P10 refused": (
        Row("P10", "working", ACTIVE, DONE, REPORT, Cancellation.REQUESTED, switches={"refuse_cancel": True}),
        Cancellation.REFUSED,
        1,
    ),
    "P11 acknowledged, and completed all the same": (
        Row("P11", "working", ACTIVE, DONE, REPORT, Cancellation.REQUESTED, switches={"ack_and_complete": True}),
        Cancellation.ACKNOWLEDGED,
        1,
    ),
}

StoppedScene = Callable[[Row], Scene]
AT_WORK = Row("P10", "working", ACTIVE, GIVEN_UP, REPORT, Cancellation.REQUESTED)


@pytest.fixture
def stopped(sender: Sender, play: Play) -> StoppedScene:
    """A scene whose job is being worked on when its task is stopped; nothing was passed on yet."""

    def stopped(row: Row) -> Scene:
        scene = play(row, sender)
        scene.bring_to_the_point()
        scene.stop()
        assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, Cancellation.REQUESTED)
        assert sender.got("main").outcome == "ignored"
        return scene

    return stopped


def see_the_end(scene: Scene, *, cancels: int) -> None:
    scene.follow_up()
    scene.beside.check()
    scene.sender.rest()
    scene.check_the_end()
    assert scene.counts()["cancels"] == cancels
    assert scene.run.context() == []


@pytest.mark.parametrize("name", ROWS)
def test_the_label_follows_the_effect_whatever_the_answer_to_the_request(name: str, stopped: StoppedScene) -> None:
    row, after_the_first_try, cancels = ROWS[name]
    scene = stopped(row)
    scene.follow_up_once()
    assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, after_the_first_try)
    if after_the_first_try is not Cancellation.REQUESTED:
        scene.pass_the_point()
    see_the_end(scene, cancels=cancels)


def test_p9_while_the_request_is_under_way_nothing_is_claimed(
    stopped: StoppedScene, sandbox: SandboxClient, in_thread: InThread
) -> None:
    scene = stopped(AT_WORK)
    sandbox.hold("cancel", "main")
    turn = in_thread(reconcile.work)
    sandbox.wait("cancel", "main")
    assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, Cancellation.SENT)
    sandbox.release("cancel", "main")
    assert turn.result(HANG_GUARD) == 1
    see_the_end(scene, cancels=1)


def test_p10_a_request_that_found_no_connection_is_sent_again(
    stopped: StoppedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stopped(AT_WORK)
    with monkeypatch.context() as patch:
        patch.setattr(connectors.get("sandbox"), "base", httpx.URL(f"http://127.0.0.1:{free_port()}"))
        scene.follow_up_once()
    assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, Cancellation.REQUESTED)
    assert Receipt.objects.get(attempt__verb=Verb.CANCEL).claim == "unsent"
    see_the_end(scene, cancels=1)


def test_p10_a_request_whose_answer_is_lost_may_have_arrived_and_is_repeated(
    stopped: StoppedScene, sandbox: SandboxClient, settings: Settings
) -> None:
    scene = stopped(AT_WORK)
    sandbox.hold("cancel", "main")
    settings.AGENTSTOP_DEADLINE = 0.5
    scene.follow_up_once()
    assert (scene.seen.label, scene.seen.cancellation) == (STILL_ACTIVE, Cancellation.SENT)
    settings.AGENTSTOP_DEADLINE = HANG_GUARD
    sandbox.release("cancel", "main")
    eventually(lambda: sandbox.ledger(task="main")["effects"][0]["state"], "cancelled")
    see_the_end(scene, cancels=2)
