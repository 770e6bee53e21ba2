"""Stored states are what the facts say; exports hold every fact; a restored backup un-stops nothing (R36)."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from agentstop import verify
from agentstop.dispatched import Dispatched
from agentstop.inputs import add, release
from agentstop.models import Input, Operation, Receipt, Task
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.stop import stop

pytestmark = pytest.mark.django_db(transaction=True)


def _failed(op: Dispatched) -> None:
    op.failed("no")


@pytest.fixture
def lived(settings: Settings) -> Task:
    """A task that has been through most of what can happen."""
    settings.AGENTSTOP_CONNECTORS = {"tools": {}}
    run = begin("Quarterly report")
    run.call("a", connector="tools", key="good", send=lambda op: "fine")
    run.call("a", connector="tools", key="bad", send=_failed)

    def lost(op: object) -> None:
        raise OSError("reset")

    run.call("a", connector="tools", key="lost", send=lost)
    run.prepare("a", connector="tools", key="never")
    taken, _ = add(run.task_id, "and shorter"), add(run.task_id, "in French")
    assert run.take_input() == taken and run.input_done(taken)
    stop(run.task_id, reason="enough", policy="test")
    add(run.task_id, "do it again")
    run.call("a", connector="tools", key="late", send=lambda op: "fine")
    stop(run.task_id, policy="test")
    return Task.objects.get(pk=run.task_id)


def test_every_stored_state_is_what_its_facts_say(lived: Task) -> None:
    assert list(verify.differences()) == []
    assert verify.counted() == (5, 1)


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", "succeeded"), ("contradictory", True), ("attempts", 7), ("doubled", True)],
)
def test_a_state_that_was_changed_by_hand_is_found(lived: Task, column: str, value: object) -> None:
    Operation.objects.filter(key="lost").update(**{column: value})
    (difference,) = verify.differences()
    assert (difference.what, difference.column) == ("operation", column)


def test_a_task_that_was_un_stopped_by_hand_is_found(lived: Task) -> None:
    Task.objects.filter(pk=lived.pk).update(state="active", live_run=1)
    assert [difference.column for difference in verify.differences(lived.pk)] == ["state", "live_run"]


def test_an_input_that_was_let_go_by_hand_is_found(lived: Task) -> None:
    Input.objects.filter(body="in French").update(waits=True)
    (difference,) = verify.differences(lived.pk)
    assert (difference.what, difference.column, difference.stored) == ("input", "waits", "True")


def test_the_command_tells_and_exits_with_1(lived: Task, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("agentstop_verify")
    assert "5 operations and 1 tasks verified, 0 differences." in capsys.readouterr().out
    Operation.objects.filter(key="lost").update(state="cancelled")
    with pytest.raises(SystemExit) as ended:
        call_command("agentstop_verify", "--json")
    assert ended.value.code == 1
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert (difference["stored"], difference["folded"]) == ("cancelled", "unknown")


def test_an_export_holds_every_fact_in_order(lived: Task, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("agentstop_export", str(lived.pk))
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert [fact["at"] for fact in facts] == sorted(fact["at"] for fact in facts)
    kinds = [fact["fact"] for fact in facts]
    assert kinds.count("attempt") == 3
    typed = [(fact["what"], fact["text"]) for fact in facts if fact["fact"] == "input"]
    assert typed == [
        ("added", "and shorter"), ("added", "in French"), ("taken", ""), ("done", ""), ("held", ""),
        ("added", "do it again"),
    ]  # fmt: skip
    assert kinds.count("receipt") == Receipt.objects.count()
    assert {"start", "stop", "refuse", "cancel"} <= {fact["what"] for fact in facts if fact["fact"] == "decision"}


def test_an_export_as_csv_starts_no_formula(lived: Task, capsys: pytest.CaptureFixture[str]) -> None:
    Receipt.objects.update(body="=cmd()")
    call_command("agentstop_export", str(lived.pk), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["text"] for row in rows if row["fact"] == "receipt"} == {"'=cmd()"}


def test_an_export_leaves_bodies_out_when_asked(lived: Task, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("agentstop_export", str(lived.pk), "--no-bodies")
    told = capsys.readouterr().out
    assert "fine" not in told and "in French" not in told


def test_an_export_of_no_task_says_so() -> None:
    with pytest.raises(CommandError, match="There is no task 99"):
        call_command("agentstop_export", "99")


def test_after_a_restore_what_was_live_is_stopped(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}}
    live, stopped, finished = begin("live"), begin("stopped"), begin("finished")
    stop(stopped.task_id, policy="test")
    finished.finish()
    call_command("agentstop_after_restore", "--dry-run")
    assert Task.objects.get(pk=live.task_id).state == "active"
    call_command("agentstop_after_restore")
    assert Task.objects.get(pk=live.task_id).state == "stopped"
    assert Task.objects.get(pk=finished.task_id).state == "finished"
    assert "1 tasks stopped" in capsys.readouterr().out
    assert live.call("a", connector="tools", key="k", send=lambda op: "sent").ignored
    assert list(verify.differences()) == []


def test_what_waits_in_a_backup_is_held_since_it_may_have_been_sent(tools: None, ann: User) -> None:
    live, stopped, finished = (begin(title, owner=ann) for title in ("live", "stopped", "finished"))
    stop(stopped.task_id)
    finished.finish()
    typed = [add(run.task_id, "one") for run in (live, stopped, finished)]
    call_command("agentstop_after_restore")
    for run in (live, stopped, finished):
        assert begin(run.task_id, by=ann).take_inputs() == []
    assert all(release(each, by=ann) for each in typed)
    assert list(verify.differences()) == []


def test_a_run_of_the_time_after_the_backup_is_not_taken_for_a_new_one(tools: None, ann: User) -> None:
    run = begin("restored", owner=ann)
    lost = Run(run.task_id, 2)  # begun after the backup, by an agent that still lives; so was a task after this one
    lost_child = Run(run.task_id + 1, 1)
    call_command("agentstop_after_restore")
    again = begin(run.task_id, by=ann)
    other = begin("new", owner=ann)
    for old in (lost, Run.from_token(lost.token)):
        assert old.call("a", connector="tools", key="k", send=lambda op: "sent").ignored
    assert again.call("a", connector="tools", key="k", send=lambda op: "sent").accepted
    assert other.task_id != lost_child.task_id
    assert list(verify.differences()) == []


def test_a_run_that_was_changed_by_hand_is_found(lived: Task) -> None:
    RunRow.objects.update(state="finished")
    (difference,) = verify.differences()
    assert (difference.what, difference.stored, difference.folded) == ("run", "finished", "stopped")


def test_the_press_and_the_last_dispatch_are_kept_with_the_stop(lived: Task) -> None:
    """R40."""
    assert lived.stop_decision is not None
    detail = lived.stop_decision.detail
    assert detail["last_dispatch_at"] < detail["pressed_at"]
