"""What is told of a task: truthful, complete, safe to show, and read in a constant number of queries (R6, R17, R18)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agentstop import lifecycle
from agentstop.accounts import account, presence, selection
from agentstop.exceptions import TaskNotFound
from agentstop.models import Operation, Receipt, Run, Task
from agentstop.reports import remedies, report
from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.runs import begin
from agentstop.states import Claim, OperationState, Source, TaskState
from agentstop.stop import stop
from agentstop.words.sentences import Label

pytestmark = pytest.mark.usefixtures("tools")

QUERIES = 13


def told(task: int) -> TaskReport:
    found = account.load(task)
    assert found is not None
    return report.tell(found)


def the_one(task: int) -> OperationReport:
    [operation] = told(task).operations
    return operation


def succeed_with(ann: User, result: Any, key: str = "k") -> OperationReport:
    run = begin("Report", owner=ann)
    run.call("file.upload", {"path": "/a"}, connector="tools", key=key, send=lambda op: result)
    return the_one(run.task_id)


def test_a_task_that_begins_while_it_is_read_is_told_with_its_run(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    task = lifecycle.create("Report", owner=ann)

    class Meanwhile:
        def rows(self, ids: Any, using: str) -> Any:
            begin(task.pk)
            return queued.rows(ids, using)

    queued = presence._QUEUED
    monkeypatch.setattr(presence, "_QUEUED", Meanwhile())
    [found] = account.load_all([task.pk])
    assert found.run is not None and found.run.number == found.task.last_run == 1


def test_a_stopped_task_tells_who_when_and_why(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=olga, reason="wrong quarter")
    found = told(run.task_id)
    task = Task.objects.get(pk=run.task_id)
    assert (found.state, found.name, found.stoppable) == (TaskState.STOPPED, "stopped", False)
    assert found.stop is not None
    assert (found.stop.by, found.stop.at, found.stop.reason) == ("olga", task.stopped_at, "wrong quarter")
    assert found.summary == "Stopped. Nothing new will be sent. No operations."


def test_a_person_is_called_by_their_full_name(ann: User) -> None:
    ann.first_name, ann.last_name = "Ann", "Achebe"
    assert (remedies.name_of(ann), remedies.name_of(None)) == ("Ann Achebe", "")


def test_a_stop_by_policy_names_the_policy(ann: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, policy="budget spent")
    found = told(run.task_id)
    assert found.stop is not None
    assert found.stop.by == "budget spent"


def test_a_task_without_a_run_can_be_stopped_and_has_no_agent(ann: User) -> None:
    found = told(lifecycle.create("Queued", owner=ann).pk)
    assert (found.run, found.stoppable, found.agent.text) == (0, True, "No agent has started.")


def test_an_agent_that_said_that_it_halted_is_told_to_have(ann: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=ann)
    assert told(run.task_id).agent.text == "The agent has not been heard of since the stop."
    run.halted()
    assert told(run.task_id).agent.text == "The agent has halted."


def test_an_agent_is_silent_only_after_a_while_without_any_sign(ann: User) -> None:
    run = begin("Report", owner=ann)
    assert told(run.task_id).agent.text == "The agent is running."
    Run.objects.filter(task_id=run.task_id).update(
        seen_at=timezone.now() - timedelta(hours=1), began_at=timezone.now() - timedelta(hours=2)
    )
    assert told(run.task_id).agent.silent
    assert "nothing was heard of its agent for a while" in told(run.task_id).agent.text
    run.call("file.upload", connector="tools", key="k", send=lambda op: "done")
    assert told(run.task_id).agent.text == "The agent is running."


def test_each_operation_tells_its_label_evidence_and_request(ann: User) -> None:
    run = begin("Report", owner=ann)
    run.call("file.upload", {"path": "/a", "token": "x"}, connector="tools", key="up", send=lambda op: "done")
    run.call("chat.post", connector="tools", key="post", send=lambda op: 1 / 0)
    run.prepare("mail.send", connector="tools", key="mail")
    stop(run.task_id, by=ann)
    up, post, mail = told(run.task_id).operations
    assert (up.action, up.key, up.connector, up.summary) == (
        "file.upload",
        "up",
        "tools",
        '{"path": "/a", "token": "•••"}',
    )
    assert [each.reading.label for each in (up, post, mail)] == [Label.COMPLETED_BEFORE, Label.UNKNOWN, Label.NOT_SENT]
    assert "answered before Stop was pressed" in up.reading.evidence
    assert "cannot be asked" in post.reading.limit
    assert told(run.task_id).summary.endswith("1 completed before cancellation · 1 unknown outcome · 1 not sent")


def test_a_refused_operation_says_why(ann: User) -> None:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=ann)
    run.call("file.upload", connector="tools", key="late", send=lambda op: "done")
    assert the_one(run.task_id).reading.evidence == "Refused before it was sent: the task was stopped."


@pytest.mark.parametrize(
    ("result", "link"),
    [
        ({"url": "https://made.example/q3.pdf"}, "https://made.example/q3.pdf"),
        ({"href": "http://made.example/q3"}, "http://made.example/q3"),
        ("https://made.example/plain", "https://made.example/plain"),
        ({"url": "javascript:alert(1)"}, ""),
        ({"url": "JAVASCRIPT:alert(1)", "href": "data:text/html,x"}, ""),
        ({"url": "java\nscript:alert(1)"}, ""),
        ({"url": " https://made.example/ "}, ""),
        ({"url": "https://good.example@evil.example/"}, ""),
        ({"url": "https://"}, ""),
        ({"url": "https://[broken"}, ""),
        ({"url": "https://made.example/\u202efdp.exe"}, ""),
        ({"url": ["https://made.example/"]}, ""),
        ({"url": "https://made.example/" + "x" * 2000}, ""),
        ("see https://made.example/ for more", ""),
        (["https://made.example/"], ""),
        (None, ""),
        (object(), ""),
    ],
)
def test_a_link_is_a_plain_web_address_or_there_is_none(ann: User, result: Any, link: str) -> None:
    assert succeed_with(ann, result).link == link


def test_a_failure_shows_the_beginning_of_what_the_provider_said(ann: User) -> None:
    run = begin("Report", owner=ann)
    with run.dispatch("file.upload", connector="tools", key="k") as op:
        op.failed("quota\x00 <b>exceeded</b> " + "x" * 1000)
    found = told(run.task_id)
    [operation] = found.operations
    assert operation.answer.startswith("quota\N{REPLACEMENT CHARACTER} <b>exceeded</b> xxx")
    assert len(operation.answer) == remedies.ANSWER
    assert found.failures == "Failed: file.upload."


def test_look_ups_that_nobody_does_are_told_of(ann: User) -> None:
    run = begin("Report", owner=ann)
    run.prepare("file.upload", connector="tools", key="k")
    assert told(run.task_id).overdue == 0
    Operation.objects.update(follow_up_at=timezone.now() - timedelta(hours=1))
    assert told(run.task_id).overdue == 1


def test_a_finished_task_can_be_stopped_only_while_something_of_it_may_go_on(ann: User) -> None:
    run = begin("Report", owner=ann)
    with run.dispatch("file.upload", connector="tools", key="k") as op:
        op.accepted(ref="r")
    run.finish()
    assert told(run.task_id).stoppable
    stop(run.task_id, by=ann)
    assert not told(run.task_id).stoppable


def test_equal_words_have_equal_digests_and_others_have_not(ann: User) -> None:
    run = begin("Report", owner=ann)
    first = told(run.task_id)
    assert told(run.task_id).digest == first.digest
    assert told(run.task_id) == first
    stop(run.task_id, by=ann)
    assert told(run.task_id).digest != first.digest


def test_a_stranger_is_told_nothing(ann: User, ben: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    for unknown in (task.pk, task.pk + 1000, 10**30, 0):
        with pytest.raises(TaskNotFound):
            report.load(unknown, ben)


def test_the_role_says_whether_this_user_may_stop_it(ann: User, olga: User) -> None:
    task = lifecycle.create("Report", owner=ann)
    assert report.load(task.pk, ann)[1].may_stop
    olga.user_permissions.remove(*olga.user_permissions.filter(codename="stop_task"))
    assert not report.load(task.pk, User.objects.get(pk=olga.pk))[1].may_stop


def fill(task: Task, many: int) -> None:
    now = timezone.now()
    Operation.objects.bulk_create(
        Operation(
            task=task,
            key=f"k{number}",
            connector="tools",
            action="file.upload",
            digest="",
            state=OperationState.PREPARED,
            state_since=now,
            folded_at=now,
            due_at=now,  # each is folded anew
            created_at=now,
        )
        for number in range(many)
    )


def test_undone_and_settled_operations_take_no_more_queries(ann: User, olga: User) -> None:
    counts = []
    for many in (1, 40):
        task = lifecycle.create(f"{many}", owner=ann)
        fill(task, 3 * many)
        rows = list(Operation.objects.filter(task=task).order_by("pk"))
        for first, undo, settled in zip(rows[0::3], rows[1::3], rows[2::3], strict=True):
            Operation.objects.filter(pk=undo.pk).update(compensates=first)
            word(settled, Claim.FAILED, Source.PERSON, olga)
            word(settled, Claim.SUCCEEDED, Source.READ_BACK)
        with CaptureQueriesContext(connection) as queries:
            found = report.load(task.pk, ann, selection.WHOLE)[0].operations
        counts.append(len(queries))
        assert [len(list(filter(None, each))) for each in zip(*map(marks, found), strict=True)] == [many] * 3
    assert counts[1] == counts[0] <= QUERIES


def word(operation: Operation, claim: Claim, source: Source, by: User | None = None) -> None:
    now = timezone.now()
    Receipt.objects.create(operation=operation, claim=claim, source=source, by=by, asked_at=now, seen_at=now, body="x")


def marks(told: OperationReport) -> tuple[object, ...]:
    return told.undoing, told.undoes, told.settling


LATER = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("settled", "said", "told"),
    [
        ("failed", "succeeded", "The provider has said since that it was done."),
        ("failed", "cancelled", "The provider has said since that it was cancelled."),
        ("failed", "running", "The provider has said since that it goes on."),
        ("failed", "failed", ""),
        ("failed", "refused", ""),
        ("failed", "not_found", ""),
        ("succeeded", "succeeded", ""),
        ("succeeded", "failed", "The provider has said since that it failed."),
        ("succeeded", "not_found", "The provider was asked since, and has nothing of it."),
        ("succeeded", "lost", ""),
        ("cancelled", "succeeded", "The provider has said since that it was done."),
        ("cancelled", "cancelled", ""),
    ],
)
def test_what_the_provider_said_after_a_person_is_told_where_it_differs(
    ann: User, olga: User, settled: Claim, said: Claim, told: str
) -> None:
    run = begin("Report", owner=ann)
    run.call("chat.post", connector="tools", key="k", send=lambda op: 1 / 0)
    operation = Operation.objects.get()
    word(operation, settled, Source.PERSON, olga)
    word(operation, said, Source.READ_BACK)
    Receipt.objects.filter(source=Source.READ_BACK).update(seen_at=timezone.now() + LATER)
    settling = the_one(run.task_id).settling
    assert settling is not None
    assert (settling.by, settling.reason, settling.since) == ("olga", "x", told)
    Receipt.objects.filter(source=Source.READ_BACK).update(
        asked_at=timezone.now() - 2 * LATER, seen_at=timezone.now() - LATER
    )
    earlier = the_one(run.task_id).settling
    assert earlier is not None
    assert earlier.since == ""


def test_a_person_who_was_deleted_is_still_a_person(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    run.call("chat.post", connector="tools", key="k", send=lambda op: 1 / 0)
    word(Operation.objects.get(), Claim.FAILED, Source.PERSON)
    settling = the_one(run.task_id).settling
    assert settling is not None
    assert (settling.by, settling.outcome) == ("a person", "failed")


def test_a_settling_changes_the_digest_and_who_looks_does_not(ann: User, olga: User) -> None:
    run = begin("Report", owner=ann)
    run.call("chat.post", connector="tools", key="k", send=lambda op: 1 / 0)
    first = told(run.task_id).digest
    word(Operation.objects.get(), Claim.FAILED, Source.PERSON, olga)
    (mine, my_role), (hers, her_role) = report.load(run.task_id, ann), report.load(run.task_id, olga)
    assert mine.digest == hers.digest != first
    assert (my_role.may_undo, my_role.may_settle) == (True, True)
    assert (her_role.may_undo, her_role.may_settle) == (False, False)


def test_a_list_takes_as_many_queries_as_one_task(ann: User) -> None:
    tasks = [lifecycle.create(f"{number}", owner=ann) for number in range(20)]
    for task in tasks:
        fill(task, 3)
    with CaptureQueriesContext(connection) as queries:
        reports = report.load_all(tasks, ann)
    assert [found.id for found, _ in reports] == [task.pk for task in tasks]
    assert {found.summary for found, _ in reports} == {"Running. 3 waiting"}
    assert len(queries) <= QUERIES
