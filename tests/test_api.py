"""How the run's methods read for someone who embeds them: mistakes get a sentence, coroutines have twins."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.db.models import F
from django.test import TestCase, override_settings
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.dispatched import Accepted, Dispatched
from agentstop.exceptions import (
    AgentStopError,
    AlreadyDone,
    GateInTransaction,
    InFlight,
    KeyReused,
    Paused,
    Stopped,
    TaskNotFound,
)
from agentstop.models import Operation, Receipt, Task
from agentstop.models import Run as RunRow
from agentstop.providers.base import Answer, Capability, Context, LookUp, Provider, Submission, SubmitIdempotency
from agentstop.runs import Run, abegin, begin
from agentstop.states import Claim
from agentstop.stop import astop, stop
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)


class Slow(Provider):
    """Answers a submit by "it is running", and says so until it is told to be done."""

    asked = 0

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_KEY)

    async def submit(self, submission: Submission, context: Context) -> Answer:
        context.before_write()
        return Answer(Claim.RUNNING, ref="job-1")

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        self.asked += 1
        return Answer(Claim.SUCCEEDED, result="done") if self.asked > 1 else Answer(Claim.RUNNING)


def test_a_provider_that_answers_running_is_followed_to_its_end(settings: Settings) -> None:
    """R20."""
    settings.AGENTSTOP_CONNECTORS = {"slow": {"PROVIDER": "tests.test_api.Slow"}}
    outcome = begin("Slow").call("work", connector="slow", key="k")
    assert (outcome.accepted, outcome.result) == (True, "done")


def test_a_job_that_nobody_can_be_asked_about_frees_the_caller_at_the_deadline(tools: None) -> None:
    """R43."""

    def job(op: Dispatched) -> Accepted:
        return op.accepted(ref="42")

    outcome = begin("Job").call("work", connector="tools", key="k", send=job, deadline=0.5)
    assert outcome.failed
    assert "cannot be asked" in outcome.error
    assert Operation.objects.get().state == "accepted"


class Nameless(Slow):
    """Takes it, and can be asked by a reference that it does not tell."""

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_REF)

    async def submit(self, submission: Submission, context: Context) -> Answer:
        return Answer(Claim.ACCEPTED)


def test_a_job_whose_reference_never_comes_frees_the_caller_at_the_deadline(settings: Settings) -> None:
    """R43: without it nobody can be asked, whatever the provider could answer."""
    settings.AGENTSTOP_CONNECTORS = {"nameless": {"PROVIDER": "tests.test_api.Nameless"}}
    outcome = begin("Job").call("work", connector="nameless", key="k", deadline=0.5)
    assert outcome.failed
    assert "cannot be asked" in outcome.error
    assert Operation.objects.get().state == "accepted"


def test_a_connector_that_cannot_send_says_so_before_anything_is_listed(tools: None) -> None:
    with pytest.raises(ValueError, match="pass send="):
        begin("x").call("work", connector="tools", key="k")
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": "k"}, "connector must be a text"),
        ({"connector": "tools"}, "Pass key="),
        ({"connector": "tools", "key": "k", "identify": ["nothing"]}, "identify names arguments"),
        ({"connector": "tools", "key": "k", "deadline": -1}, "deadline must be"),
        ({"connector": "tools", "key": "a\x00b"}, "NUL"),
        ({"connector": "elsewhere", "key": "k"}, "No connector named 'elsewhere'"),
    ],
)
def test_a_mistake_in_a_request_is_named(tools: None, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, AgentStopError), match=sentence):
        begin("x").call("work", send=lambda op: 1, **options)
    assert not Operation.objects.exists()


def test_the_stop_signal_belongs_to_the_block(tools: None) -> None:
    run = begin("x")
    with pytest.raises(AgentStopError, match="with run"):
        _ = run.stop_signal
    with run:
        assert not run.stop_signal.is_set()
        stop(run.task_id, policy="test")
        assert run.stop_signal.is_set()


def test_a_task_is_begun_again_by_its_number(tools: None) -> None:
    run = begin("x")
    assert begin(run.task_id).number == 2


def test_a_block_left_by_a_refusal_that_is_not_about_the_run_fails_the_run(tools: None) -> None:
    run = begin("x")
    with pytest.raises(InFlight), run:
        raise InFlight("the other process has it")
    assert RunRow.objects.get().state == "failed"


def test_a_block_left_because_of_a_pause_leaves_the_run_live(tools: None) -> None:
    run = begin("x")
    with pytest.raises(Paused), run:
        raise Paused("later")
    assert RunRow.objects.get().state == "live"


def test_what_has_succeeded_is_not_dispatched_again(tools: None) -> None:
    """R9, R11."""
    run = begin("x")
    with run.dispatch("work", connector="tools", key="k") as op:
        op.succeeded("done")
    with pytest.raises(AlreadyDone), run.dispatch("work", connector="tools", key="k"):
        raise AssertionError("entered")
    assert run.call("work", connector="tools", key="k", send=lambda op: 1).result == "done"


def test_coroutines_have_twins_of_everything(tools: None) -> None:
    async def agent() -> list[object]:
        async with await abegin("async") as run:
            await run.acheck()
            await run.aprepare("later", connector="tools", key="later")
            async with run.adispatch("work", connector="tools", key="k") as op:
                await op.aaccepted("7")
                await op.aprogress(0.5)
                await op.asucceeded("done")
            context = await run.acontext()
        await astop(run.task_id, policy="test")
        return context

    assert asyncio.run(agent()) == ["done"]
    assert Task.objects.get().state == "finished"


def test_an_error_in_an_async_dispatch_leaves_the_outcome_unknown(tools: None) -> None:
    async def agent() -> None:
        run = await asyncio.to_thread(begin_and_close)
        async with run.adispatch("work", connector="tools", key="k"):
            raise OSError("reset")

    with pytest.raises(OSError, match="reset"):
        asyncio.run(agent())
    assert Operation.objects.get().state == "unknown"


def begin_and_close() -> Run:
    try:
        return begin("x")
    finally:
        connections.close_all()


def test_only_a_key_that_lives_makes_sending_again_harmless() -> None:
    """R11."""
    assert not Capability(submit=SubmitIdempotency.KEY).resendable
    assert Capability(submit=SubmitIdempotency.NATURAL).resendable


def test_a_tool_that_waited_for_a_thread_until_the_stop_is_not_run(
    tools: None, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BLOCKING_THREADS", 1)
    sending.close()
    busy, free, ran = threading.Event(), threading.Event(), []

    def first(op: Dispatched) -> str:
        busy.set()
        assert free.wait(HANG_GUARD)
        return "first"

    def second(op: Dispatched) -> None:
        ran.append(op.id)

    one, two = begin("one"), begin("two")
    running = in_thread(one.call, "work", connector="tools", key="k", send=first)
    assert busy.wait(HANG_GUARD)
    queued = in_thread(two.call, "work", connector="tools", key="k", send=second)
    while not Operation.objects.filter(task=two.task_id).exists():
        assert not queued.done()
    stop(two.task_id, policy="test")
    assert queued.result(HANG_GUARD).ignored
    free.set()
    assert running.result(HANG_GUARD).accepted
    sending.close()
    assert ran == []
    assert Operation.objects.get(task=two.task_id).state == "not_sent"


def test_a_secret_in_a_result_is_masked_as_evidence_and_whole_for_the_run(tools: None) -> None:
    """R8."""
    run = begin("x")
    assert run.call("work", connector="tools", key="k", send=lambda op: {"token": "abc"}).result == {"token": "abc"}
    assert run.context() == [{"token": "abc"}]
    assert "abc" not in Receipt.objects.get().body
    again = begin(run.task_id)
    assert again.call("work", connector="tools", key="k", send=lambda op: 1).result == {"token": "abc"}


def test_a_masked_result_that_no_run_has_admitted_is_not_given_as_it_is(tools: None) -> None:
    run = begin("x")
    with run.dispatch("work", connector="tools", key="k") as op:
        again = begin(run.task_id)
        op.succeeded('{"password": "abc"}')
    assert "abc" not in Receipt.objects.get().body
    outcome = again.call("work", connector="tools", key="k", send=lambda op: 1)
    assert (outcome.failed, "masked" in outcome.error) == (True, True)


def test_an_agent_that_still_asks_after_the_stop_has_been_heard_of(tools: None) -> None:
    run = begin("x")
    RunRow.objects.update(seen_at=F("began_at") - timedelta(hours=1))
    stop(run.task_id, policy="test")
    assert run.call("work", connector="tools", key="k", send=lambda op: 1).ignored
    assert RunRow.objects.filter(seen_at__gt=F("task__stopped_at")).exists()


def test_an_operation_of_another_task_is_not_admitted(tools: None) -> None:
    run, other = begin("x"), begin("other")
    with other.dispatch("work", connector="tools", key="k") as op:
        op.succeeded("done")
    with pytest.raises(ValueError, match="none of task"), run.admitting(op.id):
        pass


def test_what_cannot_be_prepared_says_why(tools: None) -> None:
    with pytest.raises(TaskNotFound):
        Run(99_999, 1).prepare("work", connector="tools", key="k")
    run = begin("x")
    run.prepare("work", {"a": 1}, connector="tools", key="k")
    with pytest.raises(KeyReused):
        run.prepare("work", {"a": 2}, connector="tools", key="k")
    stop(run.task_id, policy="test")
    with pytest.raises(Stopped):
        run.prepare("work", connector="tools", key="late")


class HostTests(TestCase):
    """A host's own TestCase: what cannot work says so, and what can works."""

    @override_settings(AGENTSTOP_CONNECTORS={"tools": {}})
    def test_call_says_that_its_threads_would_not_see_the_test(self) -> None:
        with pytest.raises(GateInTransaction, match="TransactionTestCase"):
            begin("x").call("work", connector="tools", key="k", send=lambda op: 1)

    @override_settings(AGENTSTOP_CONNECTORS={"tools": {}})
    def test_dispatch_and_stop_work(self) -> None:
        run = begin("x")
        with run.dispatch("work", connector="tools", key="k") as op:
            op.succeeded("done")
        assert stop(run.task_id, policy="test").stopped
        assert run.context() == ["done"]
