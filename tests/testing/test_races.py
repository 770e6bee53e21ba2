"""The race runner plays its rows with an agent of the reader's own, and finds what is broken (R41)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import gate, settle, stop_signal
from agentstop.outcomes import Outcome
from agentstop.reports import report
from agentstop.runs import Run
from agentstop.testing.races.rows import ROWS, Row
from agentstop.testing.races.stage import LedgerStage
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.local import LocalSandbox
from agentstop.words.sentences import Label
from tests.races import test_can_fail as can_fail

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

Connect = Callable[..., None]
MAIL = {"mail.send": "notify.post", "mail.letter": "report.create"}


def send_mail(run: Run) -> Outcome:
    return run.call("mail.send", {"to": "ben"}, connector="mail", key="mail:ben")


async def send_letter(run: Run) -> Outcome:
    return await run.acall("mail.letter", {"to": "ben"}, connector="mail", key="letter:ben")


def row(name: str) -> Row:
    [found] = [each for each in ROWS if each.name.startswith(name)]
    return found


def test_every_row_is_played_with_what_is_answered_when_done(
    ann: User, agentstop_local: LocalSandbox, agentstop_connect: Connect, agentstop_races: Any
) -> None:
    agentstop_connect(agentstop_local, "mail", called=MAIL)
    races = agentstop_races(send_mail, owner=ann, sandbox=agentstop_local, beside=send_mail, patience=2.0)
    result = races.play([each for each in ROWS if not each.cancels and not each.accepted]).check()
    ends = {(each.row[:2], each.when): (each.ends, each.writes) for each in result.played}
    assert ends["P0", "before"] == (["not sent"], 0)
    assert ends["P2", "before"] == (["not sent"], 0)
    for point in ("P3", "P4", "P6", "P7", "P8"):
        assert ends[point, "before"] == ends[point, "after"] == (["completed before cancellation"], 1)
    assert (result.stale, len(result.played)) == (0, 15)
    assert "stale results admitted: 0" in str(result)


def test_rows_that_do_not_apply_say_why(
    ann: User, agentstop_local: LocalSandbox, agentstop_connect: Connect, agentstop_races: Any
) -> None:
    agentstop_connect(agentstop_local, "mail", called=MAIL)
    races = agentstop_races(send_mail, owner=ann, sandbox=agentstop_local, patience=0.3)
    [played] = races.play([row("P9")]).played
    assert played.skipped == "it is answered only when it is done"
    with pytest.raises(AssertionError, match="No row applied to this agent"):
        races.play([row("P9")]).check()
    [idle] = (
        agentstop_races(lambda run: None, owner=ann, sandbox=agentstop_local, patience=0.3).play([row("P3")]).played
    )
    assert idle.skipped == "the agent does not come there"


def test_a_job_that_can_be_cancelled_is_played_on_a_socket(
    ann: User, agentstop_sandbox: SandboxClient, agentstop_connect: Connect, agentstop_races: Any
) -> None:
    agentstop_connect(agentstop_sandbox, "mail", called=MAIL)
    races = agentstop_races(send_letter, owner=ann, sandbox=agentstop_sandbox)
    result = races.play([each for each in ROWS if each.cancels or each.accepted]).check()
    ends = [(each.row.partition(" ")[0], each.ends, each.writes) for each in result.played if each.when == "before"]
    done, cancelled = ["completed before cancellation"], ["cancelled"]
    assert ends[0] == ("P5", cancelled, 0)
    assert ends[1] == ("P9", cancelled, 0)
    assert [each[1:] for each in ends[2:]] == [(done, 1)] * 4
    assert result.writes_after == 4


def test_a_provider_without_barriers_plays_the_rows_of_our_own_side(
    ann: User, agentstop_sandbox: SandboxClient, agentstop_connect: Connect, agentstop_races: Any
) -> None:
    agentstop_connect(agentstop_sandbox, "mail", called=MAIL)
    stage = LedgerStage(effects=lambda key: agentstop_sandbox.counts(key)["writes"])
    result = agentstop_races(send_mail, owner=ann, stage=stage).play().check()
    told = {each.row.partition(" ")[0]: each.skipped for each in result.played}
    assert told["P3"] == "this provider cannot be held"
    assert {point for point, skipped in told.items() if not skipped} == {"P0", "P1", "P2", "P8"}


def admits_whatever_comes(patch: pytest.MonkeyPatch) -> None:
    outcome = settle._outcome

    def always(locked: Any, heard: Any, body: Any, admission: Any) -> Any:
        return outcome(replace(locked, live_run=admission.run, task_state="active"), heard, body, admission)

    patch.setattr(settle, "_outcome", always)


def sends_although_it_has_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("agentstop.passes.Pass.require", lambda self: None)


def opens_for_everybody(patch: pytest.MonkeyPatch) -> None:
    for name in ("POSTGRESQL", "SQLITE"):
        guarded = getattr(gate, name)
        patch.setattr(gate, name, guarded.replace("AND state = 'active' AND live_run = %(run)s", ""))
    patch.setattr(stop_signal, "reason_over", lambda *_: None)


def says_not_sent(patch: pytest.MonkeyPatch) -> None:
    load = report.load

    def wrong(task: int, user: Any) -> Any:
        told, role = load(task, user)
        readings = [replace(each, reading=replace(each.reading, label=Label.NOT_SENT)) for each in told.operations]
        return replace(told, operations=tuple(readings)), role

    patch.setattr(report, "load", wrong)


@pytest.mark.parametrize(
    ("broken", "point", "fault"),
    [
        (admits_whatever_comes, "P6", "1 results were admitted after the stop"),
        (says_not_sent, "P6", "is said to be not sent, and the ledger has 1 writes"),
        (can_fail.children_go_on, "P0", "a child that works for the task alone goes on"),
        (can_fail.a_shared_child_is_stopped, "P0", "a child that works for an independent task too was stopped"),
        (can_fail.a_detached_child_is_stopped, "P0", "a detached child was stopped"),
        (can_fail.a_second_press_stops_again, "P0", "a second press stopped it once more"),
    ],
)
def test_what_is_broken_is_a_fault_of_the_row(
    ann: User,
    agentstop_local: LocalSandbox,
    agentstop_connect: Connect,
    agentstop_races: Any,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[pytest.MonkeyPatch], None],
    point: str,
    fault: str,
) -> None:
    agentstop_connect(agentstop_local, "mail", called=MAIL)
    broken(monkeypatch)
    result = agentstop_races(send_mail, owner=ann, sandbox=agentstop_local).play([row(point)])
    assert any(fault in each for each in result.faults), str(result)
    with pytest.raises(AssertionError, match="FAULT"):
        result.check()


def test_the_ledger_tells_what_the_gate_cannot_know(
    ann: User, agentstop_local: LocalSandbox, agentstop_connect: Connect, agentstop_races: Any
) -> None:
    """It names one effect by two keys: the ledger tells that it was made twice, and the gate cannot know."""
    agentstop_connect(agentstop_local, "mail", called=MAIL)

    def careless(run: Run) -> None:
        for number in range(2):
            run.call("mail.send", {"to": "ben"}, connector="mail", key=f"mail:{number}")

    result = agentstop_races(careless, owner=ann, sandbox=agentstop_local).play([row("P6")])
    after = result.played[1]
    assert (after.writes, after.stale) == (2, 0)  # the ledger tells that one mail was sent twice
