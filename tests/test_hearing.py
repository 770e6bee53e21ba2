"""What a provider says besides its answer is kept: late, twice, or how far it is (R15)."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import SynchronousOnlyOperation
from pytest_django.fixtures import Settings

from agentstop import connectors, hearing, sending
from agentstop.exceptions import AgentStopError
from agentstop.models import Receipt
from agentstop.providers.base import Answer, Context, Provider, Submission
from agentstop.runs import begin
from agentstop.states import Claim
from agentstop.working import working
from tests.counted import eventually, left_over
from tests.observed import claims, of_key

pytestmark = pytest.mark.django_db(transaction=True)


class Talkative(Provider):
    """Accepts what it is given; a test says the rest through `said`."""

    said: Context

    async def submit(self, submission: Submission, context: Context) -> Answer:
        context.before_write()
        type(self).said = context
        return Answer(Claim.SUCCEEDED if submission.action == "done" else Claim.LOST)


@pytest.fixture
def talkative(settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = {"talk": {"PROVIDER": f"{__name__}.Talkative"}}
    assert isinstance(connectors.get("talk"), Provider)


def say(answer: Answer) -> None:
    sending.sender().loop.call_soon_threadsafe(Talkative.said.heard, answer)


def report_all() -> None:
    for step in range(1000):
        Talkative.said.progress(step / 1000)


def test_a_late_answer_is_kept_and_tells_what_was_done(ann: User, talkative: None) -> None:
    run = begin("late", owner=ann)
    outcome = run.call("lost", connector="talk", key="one")
    assert outcome.failed
    say(Answer(Claim.SUCCEEDED, ref="/jobs/7", result="made"))
    eventually(lambda: of_key(run.task_id, "one").state, "succeeded")
    assert claims(outcome.operation) == [("lost", "provider"), ("succeeded", "provider")]
    assert run.context() == []


def test_progress_is_kept_the_newest_of_what_comes_at_once(
    ann: User, talkative: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing, "PACE", 0.01)
    run = begin("progress", owner=ann)
    outcome = run.call("lost", connector="talk", key="one")
    sending.sender().loop.call_soon_threadsafe(report_all)
    eventually(lambda: of_key(run.task_id, "one").state, "accepted")
    eventually(left_over, {})
    kept = list(
        Receipt.objects.filter(operation=outcome.operation, claim=Claim.PROGRESS).values_list("body", flat=True)
    )
    assert kept[-1] == "0.999"
    assert len(kept) <= 2


def test_answers_without_end_are_kept_up_to_a_bound(
    ann: User, talkative: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hearing, "MOST", 3)
    run = begin("endless", owner=ann)
    outcome = run.call("done", connector="talk", key="one")
    for _ in range(10):
        say(Answer(Claim.SUCCEEDED))
    eventually(lambda: len(claims(outcome.operation)), 4)
    eventually(left_over, {})
    assert len(claims(outcome.operation)) == 4
    assert [record.action for record in caplog.records if hasattr(record, "action")] == ["hearing_ended"]


def test_nonsense_neither_raises_nor_is_stored(ann: User, talkative: None, caplog: pytest.LogCaptureFixture) -> None:
    run = begin("nonsense", owner=ann)
    outcome = run.call("done", connector="talk", key="one")
    say("what?")  # type: ignore[arg-type]
    say(Answer("what?"))  # type: ignore[arg-type]
    eventually(lambda: len(caplog.records), 2)
    assert claims(outcome.operation) == [("succeeded", "provider")]


def test_who_cannot_look_whether_a_run_is_over_holds_no_signal_of_it(ann: User, talkative: None) -> None:
    """A signal that nobody releases would be held, and listened for, as long as the process lives."""
    run, other = begin("hold", owner=ann), begin("other", owner=ann)

    async def in_a_coroutine() -> None:
        with working(run):
            raise AssertionError("unreachable")

    with working(other):
        with pytest.raises(SynchronousOnlyOperation):
            asyncio.run(in_a_coroutine())
        with pytest.raises(AgentStopError, match="Nobody listens"):
            run.stop_signal  # noqa: B018
