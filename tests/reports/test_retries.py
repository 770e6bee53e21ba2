"""Retries, redelivery, queues: whatever asks again later, or twice, is told what has happened, and sends nothing more.

R10, R11.

Several attempts of one operation, and clients that retry within one, are in `test_attempts.py`. Shown elsewhere:

| case | where |
|---|---|
| a sender asleep past its lease sends nothing when it wakes | `races/test_killed.py` |
| a worker killed at each point of a send, with a stop | `races/test_killed.py` |
| a job of a task that was stopped in the queue begins no run | `website/test_queue.py` |
| a job whose worker died begins a run that supersedes the old one | `website/test_queue.py` |
| nothing of an ended run gets through, 32 callers at once | `races/test_hammer.py` |
| a chain, a group and a chord, stopped at each joint | `test_workflows.py` |
| queued follow-ups: none is sent, all are kept and shown as held | `test_next_run.py`, `inputs/test_inputs.py` |
| on-finish code does not run for a stop | `test_ending.py` |
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agentstop import sending
from agentstop.exceptions import OutcomeUnknown
from agentstop.models import Call, Decision, Family, Operation, Task
from agentstop.models import Run as RunRow
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import task_of
from tests.races.senders import Got
from tests.reports.acts import (
    BLIND,
    NOTIFY,
    ask,
    asked,
    assert_agrees,
    counts,
    long_after,
    operation,
    page,
    refusals,
    seen,
    words,
)
from tests.reports.conftest import StartWorker

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 150  # finished tasks: a thousand take ten times as long and show the same


@pytest.mark.parametrize("switches", [{"refuse": True}, {"server_error": 1}], ids=["refused", "an error there"])
def test_a_timer_that_fires_after_the_stop_sends_nothing(
    sandbox: SandboxClient, in_thread: InThread, switches: dict[str, Any]
) -> None:
    """The first try failed and its retry waits for a timer; in between the task is stopped."""
    run, waiting, timer = begin("Notify"), threading.Event(), threading.Event()

    def job() -> list[str]:
        first = ask(run, "job", **switches).outcome.value
        waiting.set()
        assert timer.wait(HANG_GUARD)
        return [first, asked(run, "job")]

    told = in_thread(job)
    assert waiting.wait(HANG_GUARD)
    stop(run.task_id, policy="test")
    long_after(run)  # even a retry that the provider would have taken for the same one
    timer.set()
    assert told.result(HANG_GUARD) == ["failed", "stopped"]
    assert operation(run, "job").tries.filter(verb="submit").count() == 1
    assert counts(sandbox, run, "job")["submits"] == 1
    assert refusals(run) == {("job", "stopped"): 1}
    assert_agrees(sandbox, run)


def test_a_worker_with_three_jobs_in_hand_is_refused_the_third(sandbox: SandboxClient, in_thread: InThread) -> None:
    """Jobs that a worker has fetched in advance no longer pass through any queue that could hold them back."""
    run = begin("Notify")
    in_hand = [(run.token, f"job {number}") for number in (1, 2, 3)]
    sandbox.hold("received", "job 2")
    told = in_thread(lambda: [asked(Run.from_token(token), text) for token, text in in_hand])
    sandbox.wait("received", "job 2")
    report = stop(run.task_id, policy="test")
    assert told.result(HANG_GUARD) == ["accepted", "ignored", "stopped"]
    assert report.open == (operation(run, "job 2").pk,)
    sandbox.release("received", "job 2")
    sending.close()
    assert [seen(run, f"job {number}").label for number in (1, 2, 3)] == [
        Label.COMPLETED_BEFORE, Label.COMPLETED_BEFORE, Label.NOT_SENT,
    ]  # fmt: skip
    assert len(sandbox.ledger()["effects"]) == 2
    assert_agrees(sandbox, run)


def test_of_two_workers_with_one_job_one_sends_and_the_other_is_told(
    sandbox: SandboxClient, start_worker: StartWorker, in_thread: InThread
) -> None:
    """Two processes get the same job at once; the second asks while the first waits for its answer."""
    run, worker = begin("Notify"), start_worker()
    sandbox.hold("received", "job")
    worker.start("job", run, NOTIFY, words("job"))
    sandbox.wait("received", "job")
    assert in_thread(asked, run, "job").result(HANG_GUARD) == "in_flight"
    sandbox.release("received", "job")
    assert worker.got("job") == Got("accepted")
    assert refusals(run) == {("job", "in_flight"): 1}
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}
    assert len(run.context()) == 1


def test_four_deliveries_at_once_have_one_effect_and_three_refusals_on_record(
    sandbox: SandboxClient, in_thread: InThread
) -> None:
    """Whichever comes first sends; none of the others does, and how often they asked is written down."""
    run, go = begin("Notify"), threading.Barrier(4)
    sandbox.hold("received", "job")

    def deliver() -> str:
        go.wait(HANG_GUARD)
        return asked(Run.from_token(run.token), "job")

    deliveries = [in_thread(deliver) for _ in range(4)]
    sandbox.wait("received", "job")
    eventually(lambda: sum(one.done() for one in deliveries), 3)
    sandbox.release("received", "job")
    assert sorted(one.result(HANG_GUARD) for one in deliveries) == ["accepted", *["in_flight"] * 3]
    assert refusals(run) == {("job", "in_flight"): 3}
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}


def test_redeliveries_of_a_job_that_is_done_are_answered_from_the_record(sandbox: SandboxClient) -> None:
    """R9. A queue that acknowledges late brings a finished job again: to the same run, and to a new one."""
    run = begin("Notify")
    first = ask(run, "job")
    assert [ask(Run.from_token(run.token), "job").result for _ in range(2)] == [first.result] * 2
    again = begin(task_of(run))
    assert ask(again, "job").result == first.result
    assert asked(run, "job") == "superseded"
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 1}
    assert (len(run.context()), len(again.context())) == (1, 1)
    admitted = Call.objects.filter(operation=operation(run, "job"), outcome="accepted").values_list("run", flat=True)
    assert sorted(admitted) == [run.number, again.number]
    assert refusals(run) == {("job", "superseded"): 1}


@pytest.mark.parametrize("word", ["finish", "fail"])
def test_a_report_of_the_end_that_comes_after_the_stop_is_kept_and_changes_nothing(ann: User, word: str) -> None:
    """R4. The worker did not hear of the stop in time, and says that it is done, or broken: twice, as retries do."""
    run = begin("Notify", owner=ann)
    pressed = stop(run.task_id, by=ann, reason="enough")
    assert [getattr(run, word)(), getattr(run, word)()] == [False, False]
    task, row = task_of(run), RunRow.objects.get(task=run.task_id)
    assert (task.state, task.stopped_at, task.stop_reason) == ("stopped", pressed.at, "enough")
    assert (row.state, row.ended_at) == ("stopped", pressed.at)
    assert row.halted_at is not None  # it has told us that it has ended, after all
    noted = Decision.objects.filter(task=task, verb=word, effect="noted")
    assert noted.count() == 2
    assert list(differences()) == []


def killed_after_its_send(sandbox: SandboxClient, worker: Any, run: Run, action: str) -> None:
    sandbox.hold("effect", "job")
    worker.start("job", run, action, words("job"))
    sandbox.wait("effect", "job")
    worker.kill()
    sandbox.release("effect", "job")


def test_a_worker_killed_between_send_and_reply_leaves_an_unknown_outcome_that_can_be_looked_up(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User
) -> None:
    """R22. Nobody sends it again by himself; asking the provider tells how it was."""
    run = begin("Notify", owner=ann)
    killed_after_its_send(sandbox, start_worker(), run, NOTIFY)
    assert seen(run, "job").label is Label.IN_PROGRESS
    long_after(run)
    assert seen(run, "job").label is Label.UNKNOWN
    assert seen(run, "job").told.can_look_up
    assert f'form="agentstop-task-{run.task_id}-look-up"' in page(ann, run)
    assert counts(sandbox, run, "job")["submits"] == 1
    while work():
        pass
    assert counts(sandbox, run, "job") == {"submits": 1, "reads": 1, "cancels": 0, "writes": 1}
    assert seen(run, "job").label is Label.COMPLETED
    assert_agrees(sandbox, run)


def test_a_worker_killed_in_a_send_that_cannot_be_repeated_or_looked_up_leaves_it_to_a_person(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User
) -> None:
    """Neither the follow-up work nor the next worker that gets the job sends it a second time."""
    run = begin("Notify", owner=ann)
    killed_after_its_send(sandbox, start_worker(), run, BLIND)
    long_after(run)
    told = seen(run, "job")
    assert (told.label, told.told.can_look_up) == (Label.UNKNOWN, False)
    assert f'form="agentstop-task-{run.task_id}-look-up"' not in page(ann, run)
    work()
    again = begin(task_of(run))
    with pytest.raises(OutcomeUnknown, match="ask a person"):
        ask(again, "job", BLIND)
    assert len(sandbox.ledger(task="job")["effects"]) == 1


def finished_tasks(owner: User, number: int) -> list[Task]:
    """Tasks whose only run has ended, stored at once: begun one by one they would take longer than the test."""
    family, now = Family.objects.create(), timezone.now()
    tasks = Task.objects.bulk_create(
        Task(
            title=f"Old {n}", owner=owner, family=family, state="finished", last_run=1, state_since=now, created_at=now
        )
        for n in range(number)
    )
    RunRow.objects.bulk_create(
        RunRow(task=task, number=1, state="finished", began_at=now, ended_at=now, seen_at=now, halted_at=now)
        for task in tasks
    )
    return tasks


def states_of(tasks: list[Task]) -> list[tuple[Any, ...]]:
    names = ("state", "state_since", "stopped_at", "stopped_by", "stop_decision", "live_run", "last_run")
    return list(Task.objects.filter(pk__in=[task.pk for task in tasks]).order_by("pk").values_list(*names))


def test_stopping_many_finished_tasks_changes_none_and_harms_no_worker(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User
) -> None:
    """Old jobs are swept with Stop while a worker is in the middle of another one."""
    tasks, run, worker = finished_tasks(ann, MANY), begin("Notify", owner=ann), start_worker()
    sandbox.hold("received", "job")
    worker.start("job", run, NOTIFY, words("job"))
    sandbox.wait("received", "job")
    before = states_of(tasks)
    reports = [stop(task, by=ann, run=1) for task in tasks]
    assert {(one.stopped, one.why, one.open, one.never_sent) for one in reports} == {(False, "finished", (), ())}
    assert states_of(tasks) == before
    assert Decision.objects.filter(verb="stop", effect="noted").count() == MANY
    assert not Decision.objects.filter(verb="cancel").exists()
    sandbox.release("received", "job")
    assert worker.got("job") == Got("accepted")
    worker.start("next", run, NOTIFY, words("next"))
    assert worker.got("next") == Got("accepted")
    assert Operation.objects.filter(task=run.task_id, state="succeeded").count() == 2
