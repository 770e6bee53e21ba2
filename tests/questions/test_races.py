"""An answer against a stop, and against another answer, behind barriers: one truth, and everybody is told that one.

Each guard is taken away once, from outside, to see that its test would find the fault.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError
from django.db.models import QuerySet

from agentstop import answers, database, question_facts, questions
from agentstop.answers import answer, decline
from agentstop.exceptions import Declined, NotOpen, Stopped, Unanswered
from agentstop.models import Decision, Question, Task
from agentstop.models import Run as RunRow
from agentstop.runs import Run, begin
from agentstop.stop import StopReport, stop
from tests.conftest import HANG_GUARD, InThread
from tests.questions.conftest import ask, question_of
from tests.questions.waiter import waiter
from tests.races.scene import wait_for_the_lock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.race]

ROUNDS = 10


@pytest.fixture
def question(run: Run) -> Question:
    with pytest.raises(Unanswered):
        ask(run, wait=False)
    return question_of(run)


class Held:
    """Holds the first that has found out under its lock what is true, before it writes."""

    def __init__(self) -> None:
        self.inside, self._go_on = threading.Event(), threading.Event()
        self._lock, self._held = threading.Lock(), False

    def pass_by(self) -> None:
        with self._lock:
            first, self._held = not self._held, True
        if first:
            self.inside.set()
            assert self._go_on.wait(HANG_GUARD)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """An answer is held between its look at the facts and its write."""
    barrier, why_not = Held(), answers._why_not

    def found(task: Task, asked: question_facts.Asked) -> str:
        why = why_not(task, asked)
        barrier.pass_by()
        return why

    monkeypatch.setattr(answers, "_why_not", found)
    return barrier


class Unlocked:
    """The database without the locks that answers and takings are made under: each statement by itself."""

    durable = staticmethod(nullcontext)

    @staticmethod
    def locked(rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows

    def __getattr__(self, name: str) -> Any:
        return getattr(database, name)


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (answers, questions):
        monkeypatch.setattr(module, "database", Unlocked())


def said(press: Callable[..., None], question: Question, by: User) -> str:
    """What the person is told."""
    try:
        press(question, by=by)
    except NotOpen as refusal:
        return refusal.why
    return "saved"


def over_at(run: Run) -> Any:
    return RunRow.objects.get(task=run.task_id, number=run.number).ended_at


def told_the_truth(told: str, run: Run, question: Question) -> bool:
    """Saved means that it was stored before the stop, and nothing else does."""
    counts = Decision.objects.filter(question=question, effect="applied").first()
    stopped = Decision.objects.get(task=run.task_id, verb="stop", effect="applied")
    return (told == "saved") == (counts is not None and counts.pk < stopped.pk)


def test_a_stop_waits_for_an_answer_that_is_being_stored_and_closes_it(
    run: Run, question: Question, ann: User, held: Held, in_thread: InThread
) -> None:
    told = in_thread(said, answer, question, ann)
    assert held.inside.wait(HANG_GUARD)
    pressed: Future[StopReport] = in_thread(stop, run.task_id, by=ann)
    wait_for_the_lock()
    assert not pressed.done()
    held.go_on()
    assert pressed.result(HANG_GUARD).stopped
    assert told.result(HANG_GUARD) == "saved"
    assert told_the_truth("saved", run, question)
    with pytest.raises(Stopped):
        ask(run)
    assert question_of(run).applied_at is None


def test_without_the_lock_a_person_is_told_saved_after_the_stop(
    run: Run, question: Question, ann: User, unlocked: None, held: Held, in_thread: InThread
) -> None:
    """The test before sees what it is meant to see."""
    told = in_thread(said, answer, question, ann)
    assert held.inside.wait(HANG_GUARD)
    assert in_thread(stop, run.task_id, by=ann).result(HANG_GUARD).stopped
    held.go_on()
    assert told.result(HANG_GUARD) == "saved"
    assert not told_the_truth("saved", run, question)


def test_an_answer_after_the_stop_is_refused(run: Run, question: Question, ann: User) -> None:
    stop(run.task_id, by=ann)
    assert said(answer, question, ann) == "stopped"
    assert told_the_truth("stopped", run, question)


@pytest.mark.parametrize("press", [answer, decline])
def test_answer_and_stop_at_the_same_instant(
    run: Run, ann: User, in_thread: InThread, press: Callable[..., None]
) -> None:
    """Whoever is first, the person, the agent and the facts agree; and nothing is taken after the stop."""
    seen = set()
    for _ in range(ROUNDS):
        one, start = begin("Report", owner=ann), threading.Barrier(3)
        with pytest.raises(Unanswered):
            ask(one, wait=False)
        question = question_of(one)

        def at_once(function: Callable[..., Any], *args: Any, start: threading.Barrier = start, **options: Any) -> Any:
            start.wait(HANG_GUARD)
            return function(*args, **options)

        told = in_thread(at_once, said, press, question, ann)
        agent = in_thread(at_once, _agent, one)
        assert in_thread(at_once, stop, one.task_id, by=ann).result(HANG_GUARD).stopped
        word, got = told.result(HANG_GUARD), agent.result(HANG_GUARD)
        assert word in ("saved", "stopped")
        assert told_the_truth(word, one, question)
        assert got in (("stopped",) if word == "stopped" else ("stopped", "approved", "declined"))
        taken = question_of(one).applied_at
        assert (got == "approved") == (taken is not None) and (taken is None or taken <= over_at(one))
        seen.add((word, got))
    assert seen


def _agent(run: Run) -> str:
    try:
        return ask(run).value
    except (Stopped, Declined) as error:
        return error.reason


def test_an_answer_is_taken_before_the_stop_or_not_at_all(
    run: Run, question: Question, ann: User, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(question, by=ann)
    pressed = _taking_held(run, in_thread, monkeypatch, meanwhile=lambda: in_thread(stop, run.task_id, by=ann))
    assert pressed.result(HANG_GUARD).stopped
    assert question_of(run).applied_at <= over_at(run)


def test_without_the_lock_an_answer_is_taken_after_the_stop(
    run: Run, question: Question, ann: User, unlocked: None, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test before sees what it is meant to see."""
    answer(question, by=ann)

    def stopped() -> Future[Any]:
        future = in_thread(stop, run.task_id, by=ann)
        future.result(HANG_GUARD)
        return future

    _taking_held(run, in_thread, monkeypatch, meanwhile=stopped)
    assert question_of(run).applied_at > over_at(run)


def _taking_held(
    run: Run, in_thread: InThread, monkeypatch: pytest.MonkeyPatch, *, meanwhile: Callable[[], Future[Any]]
) -> Future[Any]:
    """The agent is held after it has found under the lock that it may take the answer; what was done meanwhile."""
    barrier, asked, looks = Held(), questions._asked, list[int]()

    def found(question: int) -> question_facts.Asked:
        seen = asked(question)
        looks.append(question)
        if len(looks) == 2:  # the first look is without the lock
            barrier.pass_by()
        return seen

    monkeypatch.setattr(questions, "_asked", found)
    agent = in_thread(ask, run)
    assert barrier.inside.wait(HANG_GUARD)
    done = meanwhile()
    if not done.done():
        wait_for_the_lock()
    barrier.go_on()
    assert agent.result(HANG_GUARD).value == "approved"
    return done


@pytest.mark.parametrize("presses", [(answer, answer), (answer, decline), (decline, decline)])
def test_of_two_people_at_once_exactly_one_counts_and_the_other_is_told(
    run: Run, question: Question, ann: User, olga: User, in_thread: InThread, held: Held, presses: Any
) -> None:
    _let_answer(olga)
    first = in_thread(said, presses[0], question, ann)
    assert held.inside.wait(HANG_GUARD)
    second = in_thread(said, presses[1], question, olga)
    wait_for_the_lock()
    held.go_on()
    counts = "answered" if presses[0] is answer else "declined"
    assert (first.result(HANG_GUARD), second.result(HANG_GUARD)) == ("saved", counts)
    assert list(Decision.objects.filter(question=question, effect="applied").values_list("by", flat=True)) == [ann.pk]


def test_without_the_lock_the_database_itself_refuses_the_second(
    run: Run, question: Question, ann: User, olga: User, unlocked: None, held: Held, in_thread: InThread
) -> None:
    """The test before sees what it is meant to see: two answers that both found the question open."""
    _let_answer(olga)
    first = in_thread(pytest.raises, IntegrityError, answer, question, by=ann)
    assert held.inside.wait(HANG_GUARD)
    assert said(answer, question, olga) == "saved"
    held.go_on()
    first.result(HANG_GUARD)
    assert Decision.objects.get(question=question, effect="applied").by == olga


def _let_answer(user: User) -> None:
    user.user_permissions.add(Permission.objects.get(codename="answer_question"))


def test_two_deliveries_of_a_job_ask_one_question_and_both_hear_its_answer(
    run: Run, ann: User, in_thread: InThread
) -> None:
    start = threading.Barrier(8)

    def deliver() -> str:
        start.wait(HANG_GUARD)
        return ask(run).value

    jobs = [in_thread(deliver) for _ in range(8)]
    while not Question.objects.exists():
        assert not threading.Event().wait(0.01)
    answer(question_of(run), by=ann)
    assert {job.result(HANG_GUARD) for job in jobs} == {"approved"}
    assert Question.objects.count() == 1


@pytest.mark.parametrize("answered", ["before", "after"])
def test_a_worker_is_killed_while_it_waits_and_the_next_process_goes_on_in_the_same_run(
    run: Run, ann: User, database_url: str, answered: str
) -> None:
    """The saved answer belongs to the run, not to the process that has asked."""
    with waiter(database_url, run) as worker:
        worker.wait_until_it_waits()
        if answered == "before":
            worker.freeze()
            answer(question_of(run), by=ann)
        worker.kill()
    if answered == "after":
        answer(question_of(run), by=ann)
    with waiter(database_url, run) as worker:
        assert worker.got() == "approved"
    assert Question.objects.count() == 1
    assert RunRow.objects.get(task=run.task_id).state == "live"


def test_a_stop_frees_a_process_that_waits(run: Run, ann: User, database_url: str) -> None:
    with waiter(database_url, run) as worker:
        worker.wait_until_it_waits()
        stop(run.task_id, by=ann)
        assert worker.got() == "stopped"
