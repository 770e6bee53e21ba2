"""What waits for an operator: the boards, and the commands that tell of them, stop and settle (R35, R36, R44)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import OperationalError

from agentstop import boards, bulk, database
from agentstop.boards import Board
from agentstop.freeze import freeze, unfreeze
from agentstop.models import Operation, Task
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.settle import Heard, record
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.verify import differences

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

Told = Callable[..., Any]


def lost(_: object) -> None:
    raise OSError("reset by peer")


def send_and_lose(run: Run, key: str = "k") -> Operation:
    run.call("send", connector="tools", key=key, send=lost)
    return Operation.objects.get(task=run.task_id, key=key)


def counts() -> dict[str, int]:
    return {each.board.value: each.count for each in boards.standings() if each.count}


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs a command; answers what it printed, read where it is JSON."""

    def run(name: str, *words: object, **options: Any) -> Any:
        capsys.readouterr()
        call_command(name, *map(str, words), **options)
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in words else printed

    return run


class TestBoards:
    def test_nothing_waits_where_nothing_happened(self) -> None:
        begin("Report").call("a", connector="tools", key="k", send=lambda op: "fine")
        assert counts() == {}
        assert all(each.oldest is None for each in boards.standings())

    def test_an_unknown_outcome_waits_and_after_a_stop_on_two_boards(self) -> None:
        run = begin("Report")
        operation = send_and_lose(run)
        assert counts() == {"unknown": 1}
        stop(run.task_id)
        assert counts() == {"unknown": 1, "open_after_stop": 1}
        assert boards.standing(Board.UNKNOWN).oldest == operation.state_since

    def test_what_time_alone_made_unknown_is_counted_before_anybody_folds_it(self) -> None:
        operation = send_and_lose(begin("Report"))
        past = database.now() - timedelta(seconds=1)
        Operation.objects.filter(pk=operation.pk).update(state="sending", due_at=past)
        assert counts() == {"unknown": 1}

    def test_contradictory_answers_wait_until_somebody_decides(self, ann: User) -> None:
        operation = send_and_lose(begin("Report", owner=ann))
        for claim in (Claim.CANCELLED, Claim.SUCCEEDED):
            record(operation.pk, [Heard(claim, Source.PROVIDER, database.now())])
        assert counts() == {"contradictory": 1, "unknown": 1}
        call_command("agentstop_settle", operation.pk, outcome="succeeded", reason="seen there", by="ann")
        assert counts() == {}

    def test_a_cancel_that_did_not_arrive_waits(self) -> None:
        operation = send_and_lose(begin("Report"))
        Operation.objects.filter(pk=operation.pk).update(cancellation="undeliverable")
        assert boards.standing(Board.UNDELIVERABLE_CANCELS).count == 1

    def test_due_rows_that_nobody_takes_wait(self) -> None:
        operation = send_and_lose(begin("Report"))
        long_ago = database.now() - timedelta(hours=2)
        Operation.objects.filter(pk=operation.pk).update(follow_up_at=long_ago)
        found = boards.standing(Board.LOOK_UPS_NOT_RUNNING)
        assert (found.count, found.oldest) == (1, long_ago)

    def test_of_a_silent_run_the_live_one_says_since_when(self) -> None:
        run = begin("Report")
        again = begin(task=run.task_id)
        long_ago, earlier = database.now() - timedelta(hours=2), database.now() - timedelta(hours=9)
        RunRow.objects.filter(task=run.task_id, number=again.number).update(seen_at=long_ago)
        RunRow.objects.filter(task=run.task_id, number=run.number).update(seen_at=earlier)
        found = boards.standing(Board.NO_SIGN_OF_LIFE)
        assert (found.count, found.oldest) == (1, long_ago)

    def test_a_freeze_waits_until_it_is_lifted(self) -> None:
        held = freeze(connector="tools", reason="the provider is down")
        assert counts() == {"frozen": 1}
        unfreeze(held)
        assert counts() == {}


class TestStatus:
    def test_it_tells_each_board_and_what_to_do(self, command: Told) -> None:
        send_and_lose(begin("Report"))
        printed = command("agentstop_status").splitlines()
        assert len(printed) == len(Board)
        [line] = [line for line in printed if "Unknown outcome" in line]
        assert line.startswith("      1  Unknown outcome, the oldest since ")
        assert "settle them by hand" in line

    def test_as_json_and_with_an_exit_code_for_monitors(self, command: Told) -> None:
        operation = send_and_lose(begin("Report"))
        told = command("agentstop_status", "--json", "--fail-on", "frozen")
        assert set(told) == set(Board)
        assert told["unknown"] == {"count": 1, "oldest": operation.state_since.isoformat()}
        with pytest.raises(SystemExit) as ended:
            command("agentstop_status", "--fail-on", "frozen,unknown")
        assert ended.value.code == 1

    def test_a_board_that_does_not_exist_is_named(self) -> None:
        with pytest.raises(CommandError, match=r"no board lost\. --fail-on takes some of: look_ups_not_running"):
            call_command("agentstop_status", "--fail-on", "lost")


class TestStop:
    def test_by_number_each_answers_for_itself(self, command: Told) -> None:
        one, two, other = begin("one"), begin("two"), begin("other")
        operation = send_and_lose(two)
        stop(one.task_id)
        told = command("agentstop_stop", one.task_id, two.task_id, "--json", "--reason", "enough")
        by_task = {each["task"]: each for each in told["tasks"]}
        assert (by_task[one.task_id]["stopped"], by_task[one.task_id]["why"]) == (False, "already_stopped")
        assert by_task[two.task_id]["stopped"]
        assert by_task[two.task_id]["open"] == [operation.pk]
        assert told["before"]["running"] == 1
        decision = Task.objects.get(pk=two.task_id).stop_decision
        assert decision is not None
        assert decision.policy == "command line"
        other.check()
        assert list(differences()) == []

    def test_by_owner_by_object_and_all(self, command: Told, ann: User, ben: User) -> None:
        room = Group.objects.create(name="room")
        anns, rooms, others = begin("a", owner=ann), begin("r", owner=ben, subject=room), begin("o")
        assert f"task {anns.task_id}: stopped (0 operations open" in command("agentstop_stop", "--owner", "ann")
        assert "running: 1" in command("agentstop_stop", "--subject", f"auth.group:{room.pk}")
        assert set(Task.objects.filter(state="stopped").values_list("pk", flat=True)) == {anns.task_id, rooms.task_id}
        command("agentstop_stop", "--all")
        assert Task.objects.get(pk=others.task_id).state == "stopped"

    def test_a_dry_run_counts_and_stops_nothing(self, command: Told) -> None:
        begin("one")
        assert command("agentstop_stop", "--all", "--dry-run", "--json")["before"]["running"] == 1
        assert Task.objects.get().state == "active"

    def test_a_person_who_is_named_needs_the_permission(self, command: Told, ann: User, ben: User) -> None:
        run = begin("one", owner=ann)
        ben.user_permissions.add(Permission.objects.get(codename="view_task"))
        with pytest.raises(CommandError, match="You may see task"):
            command("agentstop_stop", run.task_id, "--by", "ben")
        command("agentstop_stop", run.task_id, "--by", "ann")
        assert Task.objects.get().stopped_by == ann

    def test_a_failure_of_one_hides_nothing_and_is_the_exit_code(
        self, command: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken, fine = begin("broken"), begin("fine")

        def failing(task: int, **how: Any) -> Any:
            if task == broken.task_id:
                raise OperationalError("disk full")
            return stop(task, **how)

        monkeypatch.setattr(bulk, "stop", failing)
        with pytest.raises(SystemExit):
            call_command("agentstop_stop", broken.task_id, fine.task_id)
        printed = capsys.readouterr().out
        assert f"task {broken.task_id}: NOT STOPPED: disk full" in printed
        assert f"task {fine.task_id}: stopped" in printed

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "Name tasks by their numbers"),
            (["1", "--all"], "Name tasks by their numbers"),
            (["77"], r"no task 77\. Nothing was stopped"),
            (["--owner", "nobody"], "no user 'nobody'"),
            (["--subject", "auth.group"], "no auth.group ''|takes APP.MODEL:ID"),
            (["--subject", "auth.group:77"], r"no auth.group '77'\. Nothing was stopped"),
            (["--subject", "auth.nothing:1"], "takes APP.MODEL:ID, not 'auth.nothing:1'"),
            (["--subject", "nothing"], "takes APP.MODEL:ID, not 'nothing'"),
            (["--all", "--by", "nobody"], "no user 'nobody'"),
        ],
    )
    def test_bad_words_stop_nothing_and_say_which(self, words: list[str], said: str) -> None:
        run = begin("one")
        with pytest.raises(CommandError, match=said):
            call_command("agentstop_stop", *words)
        run.check()


class TestSettle:
    def test_the_word_of_a_person_is_kept(self, command: Told, ann: User) -> None:
        operation = send_and_lose(begin("Report", owner=ann))
        words = (operation.pk, "--outcome", "failed", "--reason", "not in their list", "--by", "ann", "--json")
        assert command("agentstop_settle", *words) == {"operation": operation.pk, "state": "failed"}
        receipt = operation.receipts.get(source="person")
        assert (receipt.by, receipt.body) == (ann, "not in their list")

    @pytest.mark.parametrize(
        ("number", "by", "reason", "said"),
        [
            (0, "nobody", "seen", "no user 'nobody'"),
            (0, "ben", "seen", "no task"),
            (0, "ann", " ", "Say on what evidence"),
            (77, "ann", "seen", "no operation"),
        ],
    )
    def test_what_cannot_be_settled_says_why(
        self, ann: User, ben: User, number: int, by: str, reason: str, said: str
    ) -> None:
        operation = send_and_lose(begin("Report", owner=ann))
        with pytest.raises(CommandError, match=said):
            call_command("agentstop_settle", operation.pk + number, outcome="failed", reason=reason, by=by)
        assert not operation.receipts.filter(source="person").exists()
