"""Each thing that stands beside a race is looked at: where the product is broken there, a row fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentstop import closing, connectors, descendants, gate, stop
from agentstop.models import Task
from agentstop.reports import report
from tests.races.conftest import Play
from tests.races.scene import ACTIVE, DONE, Row
from tests.races.senders import Sender

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

Patch = pytest.MonkeyPatch

ROW = Row("P6 effect done, response not delivered", "effect", ACTIVE, DONE)


def and_then(function: Callable[..., Any], more: Callable[[], Any]) -> Callable[..., Any]:
    def both(*args: Any, **kwargs: Any) -> Any:
        more()
        return function(*args, **kwargs)

    return both


def children_go_on(patch: Patch) -> None:
    patch.setattr(closing, "close_children", lambda *args, **kwargs: [])


def a_shared_child_is_stopped(patch: Patch) -> None:
    patch.setattr(descendants, "_held", lambda *_: set())


def a_detached_child_is_stopped(patch: Patch) -> None:
    attach = Task.objects.filter(detached=True).update
    patch.setattr(closing, "close_children", and_then(closing.close_children, lambda: attach(detached=False)))


def the_connection_is_closed(patch: Patch) -> None:
    patch.setattr(closing, "close_children", and_then(closing.close_children, connectors._made.clear))


def a_retry_is_sent(patch: Patch) -> None:
    for name in ("POSTGRESQL", "SQLITE"):
        open_for_all = getattr(gate, name).replace("AND state = 'active' AND live_run = %(run)s", "")
        assert open_for_all != getattr(gate, name)
        patch.setattr(gate, name, open_for_all)


def a_late_press_stops_a_newer_run(patch: Patch) -> None:
    why_not = stop._why_not
    patch.setattr(stop, "_why_not", lambda task, run: why_not(task, None))


def a_second_press_stops_again(patch: Patch) -> None:
    why_not = stop._why_not
    patch.setattr(stop, "_why_not", lambda task, run: why_not(task, run).replace("already_stopped", ""))


def the_page_leaves_something_out(patch: Patch) -> None:
    load = report.load

    def less(task: int, user: Any) -> Any:
        told, role = load(task, user)
        return replace(told, operations=told.operations[1:]), role

    patch.setattr(report, "load", less)


BROKEN: dict[Callable[[Patch], None], str] = {  # where it is noticed
    children_go_on: "_check_the_report",
    a_shared_child_is_stopped: "_check_the_report",
    a_detached_child_is_stopped: "_check_the_report",
    the_connection_is_closed: "_check_the_others",
    a_retry_is_sent: "_check_the_stopped",
    a_late_press_stops_a_newer_run: "press_late",
    a_second_press_stops_again: "press",
    the_page_leaves_something_out: "reload",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_what_is_broken_beside_a_race_fails_it(
    broken: Callable[[Patch], None], this_process: Sender, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    scene = play(ROW, this_process)
    scene.bring_to_the_point()
    with pytest.raises(AssertionError) as noticed:
        scene.stop()
        scene.pass_the_point()
        scene.beside.check()
    assert noticed.traceback[-1].name == BROKEN[broken]
