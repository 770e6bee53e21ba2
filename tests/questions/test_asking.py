"""A run asks a person and waits; a retry asks the same question, and only the run that has asked takes the answer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import questions, wake
from agentstop.answers import aanswer, answer, decline
from agentstop.exceptions import Declined, Expired, Finished, KeyReused, Stopped, Superseded, Unanswered
from agentstop.models import Decision, Question
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.reports import report
from agentstop.runs import Run, begin
from agentstop.sending import DOMAIN_THREADS, in_domain
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.passing import let_pass
from tests.questions.conftest import SEND_IT, Ask, Waiting, ask, both, question_of

pytestmark = pytest.mark.django_db(transaction=True)


def told(run: Run, user: User) -> Any:
    return report.load(run.task_id, user)[0]


def state(run: Run, user: User) -> str:
    return str(told(run, user).questions[0].state)


@both
def test_it_waits_until_a_person_has_answered_and_takes_the_answer(
    run: Run, ann: User, waiting: Waiting, asks: Ask
) -> None:
    future = waiting(asks, run)
    assert state(run, ann) == "pending" and not future.done()
    answer(question_of(run), by=ann)
    given = future.result(HANG_GUARD)
    assert (given.value, given.by) == ("approved", ann.pk)
    assert state(run, ann) == "applied"
    assert given.at < question_of(run).applied_at
    run.check()
    assert list(differences()) == []


@both
def test_a_decline_ends_the_waiting_with_the_reason(run: Run, ann: User, waiting: Waiting, asks: Ask) -> None:
    future = waiting(pytest.raises, Declined, asks, run)
    decline(question_of(run), by=ann, reason="not this quarter")
    assert future.result(HANG_GUARD).match("not this quarter")
    with pytest.raises(Declined):
        asks(run)
    run.check()


@both
@pytest.mark.parametrize("how", ["stop", "begin", "finish"])
def test_the_end_of_the_run_ends_the_waiting(run: Run, ann: User, waiting: Waiting, asks: Ask, how: str) -> None:
    """R5, R26: the prompt is closed with the run, whatever has ended it."""
    error = {"stop": Stopped, "begin": Superseded, "finish": Finished}[how]
    future = waiting(pytest.raises, error, asks, run)
    {"stop": lambda: stop(run.task_id, by=ann), "begin": lambda: begin(run.task_id), "finish": run.finish}[how]()
    future.result(HANG_GUARD)
    assert state(run, ann) == "closed"
    with pytest.raises(error, match="nobody was asked"):
        asks(run, key="another")


@both
def test_a_job_that_does_not_wait_is_told_and_comes_back(run: Run, ann: User, asks: Ask) -> None:
    with pytest.raises(Unanswered):
        asks(run, wait=False)
    answer(question_of(run), by=ann)
    assert asks(run, wait=False).value == "approved"
    assert asks(run, wait=False).value == "approved"
    assert Question.objects.count() == 1


def test_a_job_that_leaves_its_block_to_come_back_has_not_ended_its_run(run: Run) -> None:
    with pytest.raises(Unanswered), run:
        ask(run, wait=False)
    assert task_of(run).live_run == run.number


def test_an_agent_that_lets_the_no_of_a_person_through_has_not_come_to_its_end(run: Run, ann: User) -> None:
    """Nobody may take its end for that of a run that has done its work; what a person said is told with it."""
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    decline(question_of(run), by=ann, reason="not now")
    with pytest.raises(Declined), run:
        ask(run)
    ended = RunRow.objects.get(task=run.task_id)
    assert (ended.state, "not now" in ended.error) == ("failed", True)


@both
def test_nobody_has_answered_in_time(run: Run, ann: User, asks: Ask) -> None:
    """The waiting ends by the clock alone: nothing is committed at that moment."""
    with pytest.raises(Expired):
        asks(run, within=0.2)
    assert state(run, ann) == "expired"
    with pytest.raises(Expired):
        asks(run, within=0.2)


def test_who_has_answered_in_time_has_answered(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False, within=50.0)
    answer(question_of(run), by=ann)
    let_pass(run.task_id, 100.0)
    assert ask(run, within=50.0).value == "approved"


def test_a_free_text_and_one_of_the_choices(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        run.ask("Which channel?", key="channel", wait=False)
    with pytest.raises(Unanswered):
        run.ask("Which colour?", key="colour", choices=["red", "blue"], wait=False)
    answer(question_of(run, "channel"), "#team \x00", by=ann)
    answer(question_of(run, "colour"), "blue", by=ann)
    assert run.ask("Which channel?", key="channel").value == "#team \N{REPLACEMENT CHARACTER}"
    assert run.ask("Which colour?", key="colour", choices=["red", "blue"]).value == "blue"


def test_a_newer_run_asks_anew(run: Run, ann: User) -> None:
    """R28: what was said to the old run is no answer to the new one."""
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    answer(question_of(run), by=ann)
    newer = begin(run.task_id, by=ann)
    with pytest.raises(Unanswered):
        ask(newer, wait=False)
    with pytest.raises(Superseded):
        ask(run)
    assert [one.state for one in told(newer, ann).questions] == ["pending", "closed"]
    assert question_of(run).applied_at is None


def test_only_the_run_that_has_asked_takes_the_answer(run: Run, ann: User) -> None:
    other = begin("Another", owner=ann)
    for one in (run, other):
        with pytest.raises(Unanswered):
            ask(one, wait=False)
    answer(question_of(run), by=ann)
    with pytest.raises(Unanswered):
        ask(other, wait=False)
    assert ask(run).value == "approved"


@pytest.mark.parametrize(
    "changed",
    [
        {"text": "Send the invoice to the customer?"},
        {"kind": "answer"},
        {"details": {"to": "everybody"}},
    ],
)
def test_a_key_names_one_question(run: Run, ann: User, changed: dict[str, Any]) -> None:
    """Nobody's yes to one question may be taken for another."""
    with pytest.raises(Unanswered):
        ask(run, wait=False, details={"to": "the customer"})
    answer(question_of(run), by=ann)
    with pytest.raises(KeyReused, match="differ"):
        ask(run, **{"details": {"to": "the customer"}, **changed})
    assert question_of(run).applied_at is None


BAD: list[tuple[str, dict[str, Any]]] = [
    ("empty", {"text": " "}),
    ("empty", {"key": ""}),
    ("broken character", {"key": "a\x00b"}),
    ("10001 characters", {"text": "x" * 10_001}),
    ("kind must be", {"kind": "perhaps"}),
    ("within must be", {"within": 0}),
    ("within must be", {"within": float("nan")}),
    ("within must be", {"within": 1e12}),
    ("yes or no", {"kind": "approve", "choices": ["a"]}),
    ("different from each other", {"choices": ["a", "a"]}),
    ("at most 50", {"choices": [str(number) for number in range(51)]}),
    ("list of texts", {"choices": "ab"}),
    ("not empty", {"choices": ["a", ""]}),
    ("cannot be shown", {"details": {("a",): 1}}),
]


@pytest.mark.parametrize(("words", "bad"), BAD, ids=[f"{words} {index}" for index, (words, _) in enumerate(BAD)])
def test_bad_input_is_told_before_anything_is_written(run: Run, words: str, bad: dict[str, Any]) -> None:
    given = {"text": SEND_IT, "key": "send", **bad}
    with pytest.raises(ValueError, match=words):
        run.ask(given.pop("text"), **given)
    assert not Question.objects.exists()


def test_secrets_in_the_details_are_masked_and_long_ones_say_that_they_were_cut(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False, details={"password": "hunter2", "text": "x" * 20_000})
    shown = told(run, ann).questions[0]
    assert "hunter2" not in shown.details and "•••" in shown.details
    assert shown.cut and len(shown.details) == 10_000


def test_a_paused_task_can_be_asked_and_answered(run: Run, ann: User, waiting: Waiting) -> None:
    """R33: a pause holds dispatch; what a person says meanwhile is heard."""
    future = waiting(ask, run)
    pause(run.task_id, by=ann)
    answer(question_of(run), by=ann)
    assert future.result(HANG_GUARD).value == "approved"
    assert resume(run.task_id, by=ann)


def test_while_it_waits_the_agent_gives_signs_of_life_and_its_line_says_what_it_waits_for(
    run: Run, ann: User, waiting: Waiting, settings: Settings
) -> None:
    """R5, R22: waiting for a person is not silence."""
    settings.AGENTSTOP_SWEEP = 0.05
    future = waiting(ask, run)
    let_pass(run.task_id, 3600.0)
    old = task_of(run).runs.get().seen_at
    while task_of(run).runs.get().seen_at == old:
        assert not threading.Event().wait(0.02)
    assert told(run, ann).agent.text == "The agent is waiting for a person."
    assert "1 question waits for an answer." in told(run, ann).summary
    answer(question_of(run), by=ann)
    future.result(HANG_GUARD)
    assert told(run, ann).agent.text == "The agent is running."


def test_an_agent_that_asked_and_is_gone_is_not_said_to_wait(run: Run, ann: User) -> None:
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    let_pass(run.task_id, 3600.0)
    assert "has not been heard of since" in told(run, ann).agent.text


def test_coroutines_that_wait_block_no_thread(run: Run, ann: User, in_thread: InThread) -> None:
    """Three times as many wait as there are threads for them all, and another call still gets through."""
    many = 3 * DOMAIN_THREADS

    async def agents() -> list[Any]:
        waits = [asyncio.create_task(run.aask(SEND_IT, key=f"send {number}")) for number in range(many)]
        while await in_domain(Question.objects.count) < many:
            await asyncio.sleep(0.01)
        await run.acheck()
        for question in await in_domain(lambda: list(Question.objects.all())):
            await aanswer(question, f"answer to {question.key}", by=ann)
        return await asyncio.gather(*waits)

    given = in_thread(lambda: asyncio.run(agents())).result(HANG_GUARD)
    assert [one.value for one in given] == [f"answer to send {number}" for number in range(many)]


def test_a_coroutine_that_is_cancelled_leaves_its_question_open(run: Run, ann: User, in_thread: InThread) -> None:
    async def agent() -> None:
        waits = asyncio.create_task(run.aask(SEND_IT, key="send", kind="approve"))
        while not await in_domain(Question.objects.exists):
            await asyncio.sleep(0.01)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    in_thread(lambda: asyncio.run(agent())).result(HANG_GUARD)
    assert state(run, ann) == "pending"
    answer(question_of(run), by=ann)
    assert ask(run).value == "approved"


def test_a_wake_between_the_look_and_the_waiting_is_not_lost(
    run: Run, ann: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.AGENTSTOP_SWEEP = 2 * HANG_GUARD  # nothing else would wake it
    looked, go_on, look = threading.Event(), threading.Event(), questions._look

    def slow(question: Question) -> Any:
        found = look(question)
        looked.set()
        assert go_on.wait(HANG_GUARD)
        return found

    monkeypatch.setattr(questions, "_look", slow)
    future = in_thread(ask, run)
    assert looked.wait(HANG_GUARD)
    answer(question_of(run), by=ann)
    go_on.set()
    assert future.result(HANG_GUARD).value == "approved"


def test_without_its_subscription_the_same_wake_is_lost(
    run: Run, ann: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """The test before sees what it is meant to see."""
    settings.AGENTSTOP_SWEEP = 1.0
    monkeypatch.setattr(wake, "subscribe", lambda subscriber: lambda: None)
    woken, wait = list[bool](), threading.Event.wait
    looked, look = threading.Event(), questions._look

    def counted(event: threading.Event, timeout: float | None = None) -> bool:
        woken.append(wait(event, timeout))
        return woken[-1]

    def first(question: Question) -> Any:
        found = look(question)
        if found is None:
            looked.set()
        return found

    monkeypatch.setattr(questions, "_look", first)
    future = in_thread(ask, run)
    assert looked.wait(HANG_GUARD)
    monkeypatch.setattr(threading.Event, "wait", counted)
    answer(question_of(run), by=ann)
    assert future.result(HANG_GUARD).value == "approved"  # by the sweep
    assert True not in woken


def test_asking_leaves_one_question_and_one_decision(run: Run, ann: User) -> None:
    """R36."""
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    answer(question_of(run), by=ann)
    ask(run)
    ask(run)
    (decision,) = Decision.objects.exclude(verb="start")
    assert (decision.verb, decision.effect, decision.by, decision.run) == ("answer", "applied", ann, run.number)
    assert (decision.question, decision.detail) == (question_of(run), {"answer": "approved"})
