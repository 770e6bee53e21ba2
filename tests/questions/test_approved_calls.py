"""A call that a person has to approve: the provider's ledger says that nothing left before their yes was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from agentstop import questions, sending
from agentstop.answers import answer, decline
from agentstop.compensate import compensate
from agentstop.exceptions import AgentStopError, Declined, InFlight, KeyReused, Paused, Refused, Stopped, Unanswered
from agentstop.models import Attempt, Decision, Operation, Question
from agentstop.outcomes import Outcome
from agentstop.pause import pause, resume
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.questions.conftest import Waiting
from tests.reports.acts import NOTIFY, assert_agrees, counts, operation, refusals, seen, words

pytestmark = pytest.mark.django_db(transaction=True)

TELL = "Tell the team?"
Call = Callable[..., Outcome]


def call(run: Run, key: str = "told", *, args: dict[str, Any] | None = None, **options: Any) -> Outcome:
    return run.call(NOTIFY, args or words(key), connector="sandbox", key=key, approve=TELL, **options)


def acall(run: Run, key: str = "told", *, args: dict[str, Any] | None = None, **options: Any) -> Outcome:
    return asyncio.run(run.acall(NOTIFY, args or words(key), connector="sandbox", key=key, approve=TELL, **options))


both = pytest.mark.parametrize("calls", [call, acall])


def asked(run: Run) -> Question:
    return Question.objects.filter(task=run.task_id, run=run.number).latest("pk")


def sent(sandbox: SandboxClient) -> list[str]:
    return [effect["text"] for effect in sandbox.ledger()["effects"]]


def test_on_the_loop_that_sends_it_is_told_at_once_and_nobody_is_asked(run: Run, sandbox: SandboxClient) -> None:
    async def tool() -> None:
        with pytest.raises(AgentStopError, match="called without await on agentstop's own loop"):
            call(run)

    sending.sender().start(tool).result(HANG_GUARD)
    assert not Question.objects.exists() and not Operation.objects.exists()


@both
def test_nothing_is_sent_before_the_yes_and_once_after_it(
    sandbox: SandboxClient, run: Run, ann: User, waiting: Waiting, calls: Call
) -> None:
    future = waiting(calls, run)
    question = asked(run)
    assert (question.text, question.connector, question.action) == (TELL, "sandbox", NOTIFY)
    assert '"text": "told"' in question.details
    assert question.operation_id == operation(run, "told").pk
    assert seen(run, "told").label is Label.WAITING
    assert sandbox.ledger()["counts"] == {} and not Attempt.objects.exists()
    answer(question, by=ann)
    assert future.result(HANG_GUARD).accepted
    assert sent(sandbox) == ["told"]
    assert Attempt.objects.get().passed_at > asked(run).applied_at  # type: ignore[operator]
    assert_agrees(sandbox, run)


@both
def test_a_no_sends_nothing_and_is_told_on_the_operation(
    sandbox: SandboxClient, run: Run, ann: User, waiting: Waiting, calls: Call
) -> None:
    future = waiting(pytest.raises, Declined, calls, run)
    decline(asked(run), by=ann)
    assert future.result(HANG_GUARD).value.operation == operation(run, "told").pk
    shown = seen(run, "told")
    assert (shown.label, shown.reading.evidence) == (
        Label.NOT_SENT,
        "Refused before it was sent: a person has declined it.",
    )
    assert sandbox.ledger()["counts"] == {}
    assert refusals(run) == {("told", "declined"): 1}
    assert_agrees(sandbox, run)


@both
def test_a_stop_while_it_waits_answers_ignored_and_sends_nothing(
    sandbox: SandboxClient, run: Run, ann: User, waiting: Waiting, calls: Call
) -> None:
    future = waiting(calls, run)
    stop(run.task_id, by=ann)
    outcome = future.result(HANG_GUARD)
    assert outcome.ignored and isinstance(outcome.refusal, Stopped)
    assert seen(run, "told").label is Label.NOT_SENT
    assert sandbox.ledger()["counts"] == {}


@both
def test_an_approval_that_was_saved_and_not_taken_sends_nothing_after_a_stop(
    sandbox: SandboxClient, run: Run, ann: User, calls: Call
) -> None:
    with pytest.raises(Unanswered):
        calls(run, wait=False)
    answer(asked(run), by=ann)
    stop(run.task_id, by=ann)
    assert calls(run).ignored
    assert asked(run).applied_at is None
    assert sandbox.ledger()["counts"] == {}


def test_an_approval_that_was_taken_sends_nothing_after_a_stop(
    sandbox: SandboxClient, run: Run, ann: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has taken the yes, and the stop comes before the gate."""
    ask = questions.ask

    def stopped_after(*args: Any, **options: Any) -> Any:
        answered = ask(*args, **options)
        stop(run.task_id, by=ann)
        return answered

    with pytest.raises(Unanswered):
        call(run, wait=False)
    answer(asked(run), by=ann)
    monkeypatch.setattr(questions, "ask", stopped_after)
    assert call(run).ignored
    assert asked(run).applied_at is not None
    assert sandbox.ledger()["counts"] == {} and not Attempt.objects.exists()


def test_a_redelivered_job_asks_nobody_again(sandbox: SandboxClient, run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        call(run, wait=False)
    answer(asked(run), by=ann)
    assert call(run, wait=False).accepted
    assert call(run, wait=False).accepted
    assert Question.objects.count() == 1
    assert counts(sandbox, run, "told")["writes"] == 1


def test_a_new_run_asks_nobody_about_what_was_done_already(sandbox: SandboxClient, run: Run, ann: User) -> None:
    assert run.call(NOTIFY, words("told"), connector="sandbox", key="told").accepted
    newer = begin(run.task_id, by=ann)
    assert call(newer, wait=False).accepted
    assert not Question.objects.exists()
    assert counts(sandbox, run, "told")["submits"] == 1


def test_a_new_run_is_not_covered_by_the_yes_to_the_old_one(sandbox: SandboxClient, run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        call(run, wait=False)
    answer(asked(run), by=ann)
    newer = begin(run.task_id, by=ann)
    with pytest.raises(Unanswered):
        call(newer, wait=False)
    assert sandbox.ledger()["counts"] == {}


def test_a_yes_is_for_the_very_arguments_that_the_person_has_read(sandbox: SandboxClient, run: Run, ann: User) -> None:
    """R9 lets a model's wording differ under one key; what a person approved is one wording."""
    options: dict[str, Any] = {"wait": False, "identify": ["label"]}
    with pytest.raises(Unanswered):
        call(run, args={**words("told"), "text": "all is well"}, **options)
    answer(asked(run), by=ann)
    with pytest.raises(Unanswered):
        call(run, args={**words("told"), "text": "all is lost"}, **options)
    assert "all is lost" in asked(run).details
    assert sandbox.ledger()["counts"] == {}


def test_a_key_of_something_else_is_refused_before_anybody_is_asked(
    sandbox: SandboxClient, run: Run, ann: User
) -> None:
    run.call(NOTIFY, words("told"), connector="sandbox", key="told")
    with pytest.raises(KeyReused):
        call(run, args=words("another"))
    assert not Question.objects.exists()


def test_what_is_under_way_is_refused_before_anybody_is_asked(
    sandbox: SandboxClient, run: Run, in_thread: InThread
) -> None:
    sandbox.hold("received", "told")
    in_thread(run.call, NOTIFY, words("told"), connector="sandbox", key="told")
    sandbox.wait("received", "told")
    with pytest.raises(InFlight):
        call(run)
    assert not Question.objects.exists()
    sandbox.release("received", "told")


def test_an_undone_effect_needs_a_new_yes(sandbox: SandboxClient, run: Run, ann: User) -> None:
    """One yes is for one effect: what a person has undone is not made again by it."""
    report = partial(
        run.call, "report.create", words("report"), connector="sandbox", key="report", approve="Make it?", wait=False
    )
    with pytest.raises(Unanswered):
        report()
    answer(asked(run), by=ann)
    assert report().accepted
    compensate(operation(run, "report").pk, by=ann)
    sending.close()
    assert Operation.objects.get(compensates__isnull=False).state == "succeeded"
    with pytest.raises(Unanswered):
        report()
    assert asked(run).operation is None  # the next incarnation is not listed yet
    answer(asked(run), by=ann)
    assert report().accepted
    assert Question.objects.count() == 2


def test_a_yes_is_not_used_for_another_incarnation_that_came_to_be_meanwhile(
    sandbox: SandboxClient, run: Run, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cancelled at its provider while the person thought: the gate asks for a new yes instead of going on."""
    with pytest.raises(Unanswered):
        call(run, wait=False)
    ask = questions.ask

    def cancelled_after(*args: Any, **options: Any) -> Any:
        answered = ask(*args, **options)
        row = operation(run, "told")
        Operation.objects.filter(pk=row.pk).update(state="cancelled")
        return answered

    answer(asked(run), by=ann)
    monkeypatch.setattr(questions, "ask", cancelled_after)
    with pytest.raises(Refused, match="ask again"):
        call(run, wait=False)
    assert sandbox.ledger()["counts"] == {}


def test_a_paused_task_can_be_asked_and_sends_when_it_is_resumed(
    sandbox: SandboxClient, run: Run, ann: User, waiting: Waiting
) -> None:
    pause(run.task_id, by=ann)
    with pytest.raises(Paused):
        call(run, wait=False)
    future = waiting(call, run)
    answer(asked(run), by=ann)
    while asked(run).applied_at is None:
        pass
    assert not future.done() and sandbox.ledger()["counts"] == {}
    resume(run.task_id, by=ann)
    assert future.result(HANG_GUARD).accepted
    assert list(differences()) == []


def test_what_cannot_be_shown_is_not_asked_and_not_listed(sandbox: SandboxClient, run: Run) -> None:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    with pytest.raises(ValueError):
        run.call(NOTIFY, ring, connector="sandbox", key="k", approve=TELL)
    with pytest.raises(ValueError):
        run.call(NOTIFY, {}, connector="sandbox", key="k", approve=" ")
    assert not Question.objects.exists() and not Operation.objects.exists()


def test_each_refusal_is_counted_once_for_its_run(sandbox: SandboxClient, run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        call(run, wait=False)
    decline(asked(run), by=ann)
    for _ in range(3):
        with pytest.raises(Declined):
            call(run)
    refused = Decision.objects.get(verb="refuse")
    assert (refused.reason, refused.count) == ("declined", 3)
