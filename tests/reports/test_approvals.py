"""Approvals: what a person said yes to is sent once, and only while the run lives; what they said no to is never sent.

Shown elsewhere:

| case | where |
|---|---|
| a page or socket that goes away leaves every question as it is | `live/test_questions.py` |
| an answer and a stop at the same instant, two people at once, with and without the lock | `questions/test_races.py` |
| a call that waits for its approval, its arguments, its next incarnation | `questions/test_approved_calls.py` |
| approving, and stopping while a question is open, in a browser | `browser/test_questions.py` |
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agentstop import reconcile, sending
from agentstop.answers import answer, decline
from agentstop.exceptions import Declined, Frozen, NotOpen, Stopped, Unanswered
from agentstop.freeze import freeze
from agentstop.lifecycle import create
from agentstop.models import Attempt, Decision, Question, Task
from agentstop.outcomes import Outcome
from agentstop.pause import pause
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import task_of
from tests.passing import let_pass
from tests.questions.waiter import waiter
from tests.reports.acts import NOTIFY, assert_agrees, counts, long_after, page, refusals, seen, words

pytestmark = pytest.mark.django_db(transaction=True)

MAY_I = "Tell the team?"


def tell(run: Run, key: str = "told", *, wait: bool = True) -> Outcome:
    return run.call(NOTIFY, words(key), connector="sandbox", key=key, approve=MAY_I, wait=wait)


def question(run: Run) -> Question:
    return Question.objects.filter(task=run.task_id, run=run.number).latest("pk")


def state(run: Run, user: User) -> str:
    return str(report.load(run.task_id, user)[0].questions[0].state)


def press(user: User, run: Run, **data: Any) -> str:
    """The form on a page, sent again by a client that does not know better; what it is told."""
    client = Client()
    client.force_login(user)
    answered = client.post(f"/tasks/{run.task_id}/answer/", data, headers={"Agentstop-Request": "panel"})
    assert answered.status_code == 200
    return answered.content.decode()


def test_what_was_approved_and_sent_is_not_submitted_again_after_a_stop(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    """Approve, stop while it is at the provider, wait: neither the client, nor a redelivered job, nor the worker."""
    run = begin("Report", owner=ann)
    sandbox.hold("received", "told")
    told = in_thread(tell, run)
    eventually(Question.objects.count, 1)
    answer(question(run), by=ann)
    sandbox.wait("received", "told")
    stop(run.task_id, by=ann)
    assert told.result(HANG_GUARD).ignored
    assert "It was answered already" in press(ann, run, approve=question(run).pk)
    assert tell(run).ignored
    sandbox.release("received", "told")
    sending.close()
    long_after(run)
    reconcile.work()
    assert tell(run).ignored
    assert counts(sandbox, run, "told")["submits"] == 1
    assert seen(run, "told").label is Label.COMPLETED_BEFORE
    assert_agrees(sandbox, run)


def test_what_was_approved_and_not_sent_before_a_stop_is_never_submitted(sandbox: SandboxClient, ann: User) -> None:
    """Approve, stop before the agent has looked, wait."""
    run = begin("Report", owner=ann)
    with pytest.raises(Unanswered):
        tell(run, wait=False)
    answer(question(run), by=ann)
    stop(run.task_id, by=ann)
    assert "The task was stopped before that: your answer was not taken." in press(ann, run, approve=question(run).pk)
    assert tell(run).ignored
    long_after(run)
    reconcile.work()
    assert sandbox.ledger()["counts"] == {}
    assert not Attempt.objects.exists()
    assert seen(run, "told").label is Label.NOT_SENT
    assert_agrees(sandbox, run)


Bring = Callable[[Run, User], None]


def pending(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        run.ask(MAY_I, key="may", kind="approve", wait=False)


def saved(run: Run, ann: User) -> None:
    pending(run, ann)
    answer(question(run), by=ann)


def applied(run: Run, ann: User) -> None:
    saved(run, ann)
    run.ask(MAY_I, key="may", kind="approve")


STATES: list[tuple[Bring, str, str]] = [
    (pending, "pending", "closed"),
    (saved, "answered", "closed"),
    (applied, "applied", "applied"),
]
every_state = pytest.mark.parametrize(("bring", "before", "stopped"), STATES, ids=[each[1] for each in STATES])


@every_state
def test_a_stop_closes_what_no_agent_has_taken(tools: None, ann: User, bring: Bring, before: str, stopped: str) -> None:
    run = begin("Report", owner=ann)
    bring(run, ann)
    assert state(run, ann) == before
    stop(run.task_id, by=ann)
    assert state(run, ann) == stopped
    with pytest.raises(Stopped):
        run.ask(MAY_I, key="may", kind="approve")
    with pytest.raises(NotOpen) as told:
        answer(question(run), by=ann)
    assert told.value.why == ("answered" if before == "applied" else "stopped")


@every_state
def test_a_stop_of_the_parent_closes_what_its_children_ask(
    tools: None, ann: User, bring: Bring, before: str, stopped: str
) -> None:
    """R31: to any depth, in the same commit."""
    root = begin("root", owner=ann)
    child = begin("child", serves=[root])
    grandchild = begin("grandchild", serves=[child])
    bring(grandchild, ann)
    stop(root.task_id, by=ann)
    assert state(grandchild, ann) == stopped


@every_state
def test_a_process_that_goes_away_closes_nothing_and_the_next_one_goes_on(
    ann: User, database_url: str, bring: Bring, before: str, stopped: str
) -> None:
    """R32: killed while it waits, after it was answered, after it has taken the answer."""
    run = begin("Report", owner=ann)
    with waiter(database_url, run, MAY_I, "may") as process:
        process.wait_until_it_waits()
        if before == "answered":
            process.freeze()
        if before != "pending":
            answer(question(run), by=ann)
        if before == "applied":
            assert process.got() == "approved"
        process.kill()
    let_pass(run.task_id, 3600.0)
    assert state(run, ann) == before
    assert (task_of(run).state, task_of(run).live_run) == ("active", run.number)
    if before == "pending":
        answer(question(run), by=ann)
    with waiter(database_url, run, MAY_I, "may") as process:
        assert process.got() == "approved"
    assert Question.objects.count() == 1
    assert Decision.objects.filter(verb="answer").count() == 1


def test_a_tool_that_is_declined_a_hundred_times_sends_nothing(sandbox: SandboxClient, ann: User) -> None:
    """The agent asks for a hundred things, and again for each: the ledger of the provider knows of none."""
    run = begin("Report", owner=ann)
    for number in range(100):
        with pytest.raises(Unanswered):
            tell(run, f"told {number}", wait=False)
        decline(question(run), by=ann, reason="no")
        with pytest.raises(Declined):
            tell(run, f"told {number}")
    for _ in range(3):
        with pytest.raises(Declined):
            tell(run, "told 7", wait=False)
    assert sandbox.ledger() == {"effects": [], "counts": {}}
    assert not Attempt.objects.exists()
    assert set(refusals(run)) == {(f"told {number}", "declined") for number in range(100)}
    assert refusals(run)[("told 7", "declined")] == 4
    assert_agrees(sandbox, run)


def test_a_late_answer_sends_nothing(sandbox: SandboxClient, ann: User) -> None:
    """After the question's time, and after the stop."""
    run = begin("Report", owner=ann)
    with pytest.raises(Unanswered):
        tell(run, wait=False)
    asked = question(run)
    Question.objects.filter(pk=asked.pk).update(until=asked.asked_at)
    with pytest.raises(NotOpen, match="too late"):
        answer(asked, by=ann)
    stop(run.task_id, by=ann)
    with pytest.raises(NotOpen):
        answer(asked, by=ann)
    assert tell(run).ignored
    assert sandbox.ledger() == {"effects": [], "counts": {}}


def expired(run: Run, ann: User) -> None:
    pending(run, ann)
    asked = question(run)
    Question.objects.filter(pk=asked.pk).update(until=asked.asked_at)


def declined(run: Run, ann: User) -> None:
    pending(run, ann)
    decline(question(run), by=ann)


@pytest.mark.parametrize("bring", [pending, saved, applied, declined, expired])
def test_stop_can_be_pressed_whatever_became_of_a_question(tools: None, ann: User, bring: Bring) -> None:
    """In every state of the task that is not final."""
    run = begin("Report", owner=ann)
    bring(run, ann)
    prefix = f"agentstop-task-{run.task_id}"
    assert f'<button type="submit" form="{prefix}-stop" name="run" value="{run.number}"' in page(ann, run)
    client = Client()
    client.force_login(ann)
    client.post(f"/tasks/{run.task_id}/stop/", {"run": run.number})
    assert task_of(run).state == "stopped"
    disabled = f'type="button" aria-disabled="true" aria-describedby="{prefix}-why-not" name="run" value="{run.number}"'
    assert disabled in page(ann, run)


def queued(ann: User) -> Task:
    return create("Report", owner=ann)


def paused(ann: User) -> Task:
    run = begin("Report", owner=ann)
    pause(run.task_id, by=ann)
    return task_of(run)


def frozen(ann: User) -> Task:
    freeze(connector="tools", reason="because")
    run = begin("Report", owner=ann)
    with pytest.raises(Frozen):
        run.call("work", connector="tools", key="k", send=lambda op: "sent")
    return task_of(run)


def silent(ann: User) -> Task:
    run = begin("Report", owner=ann)
    let_pass(run.task_id, 3600.0)
    return task_of(run)


def in_retry(ann: User) -> Task:
    run = begin("Report", owner=ann)
    assert run.call("work", connector="tools", key="k", send=lambda op: 1 / 0).failed
    return task_of(run)


def begun_again(ann: User) -> Task:
    run = begin("Report", owner=ann)
    stop(run.task_id, by=ann)
    return task_of(begin(run.task_id, by=ann))


def finished_with_a_child(ann: User) -> Task:
    run = begin("Report", owner=ann)
    begin("child", serves=[run])
    run.finish()
    return task_of(run)


@pytest.mark.parametrize("bring", [queued, paused, frozen, silent, in_retry, begun_again, finished_with_a_child])
def test_stop_can_be_pressed_in_every_state_in_which_something_may_happen(
    tools: None, ann: User, bring: Callable[[User], Task]
) -> None:
    """R5: the button is there, works at once, and is not offered again."""
    task, client = bring(ann), Client()
    client.force_login(ann)
    offered = f'<button type="submit" form="agentstop-task-{task.pk}-stop" name="run" value="{task.last_run}"'
    assert offered in client.get(f"/tasks/{task.pk}/").content.decode()
    assert client.post(f"/tasks/{task.pk}/stop/", {"run": task.last_run}).status_code == 302
    assert not Task.objects.filter(state__in=["active", "paused"]).exists()
    assert offered not in client.get(f"/tasks/{task.pk}/").content.decode()


def test_what_a_person_is_told_is_what_the_agent_gets(sandbox: SandboxClient, in_thread: InThread, ann: User) -> None:
    """Calls that wait at once; half are approved and half declined by two people while the task is stopped."""
    run, many, begun = begin("Report", owner=ann), 24, threading.Barrier(3)
    calls: list[Future[str]] = [in_thread(_outcome, run, f"told {number}") for number in range(many)]
    eventually(Question.objects.count, many)
    asked = list(Question.objects.order_by("pk"))

    def people(presses: list[Question]) -> dict[int, str]:
        begun.wait(HANG_GUARD)
        return {each.pk: _told(each, ann) for each in presses}

    told = [in_thread(people, asked[::2]), in_thread(people, asked[1::2])]
    begun.wait(HANG_GUARD)
    stop(run.task_id, by=ann)
    said = {pk: word for one in told for pk, word in one.result(HANG_GUARD).items()}
    got = [call.result(HANG_GUARD) for call in calls]
    sending.close()
    assert set(said.values()) <= {"approved", "declined", "stopped"}
    assert got.count("accepted") <= list(said.values()).count("approved")
    assert got.count("declined") <= list(said.values()).count("declined")
    made = len(sandbox.ledger()["effects"])
    taken = Question.objects.filter(applied_at__isnull=False).count()
    assert made <= taken <= list(said.values()).count("approved")
    assert_agrees(sandbox, run)


def _outcome(run: Run, key: str) -> str:
    try:
        return tell(run, key).outcome.value
    except Declined:
        return "declined"


def _told(asked: Question, ann: User) -> str:
    try:
        (answer if asked.pk % 2 else decline)(asked, by=ann)
    except NotOpen as refusal:
        return refusal.why
    return "approved" if asked.pk % 2 else "declined"
