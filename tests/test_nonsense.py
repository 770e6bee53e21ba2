"""Providers that answer nonsense: what proves nothing is lost, or changes nothing, and what is there is kept.

R12, R19.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agentstop import reconcile
from agentstop.models import Receipt
from agentstop.providers.base import Answer, CancelReply
from agentstop.runs import Run, begin
from agentstop.states import Claim, OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import PROVIDER, sandbox_options
from tests.conftest import HANG_GUARD, InThread
from tests.nonsense import nonsense
from tests.observed import claims, of_key
from tests.passing import let_pass

pytestmark = pytest.mark.django_db(transaction=True)


def left_accepted(run: Run) -> int:
    """An operation that a provider has accepted and nobody waits for."""
    with run.dispatch("write", connector="odd", key="k") as op:
        op.accepted("r")
    return op.id


@pytest.mark.parametrize(
    "given",
    [
        None,
        "done",
        {"claim": "succeeded"},
        Answer("done"),  # type: ignore[arg-type]
        Answer(Claim.SUCCEEDED, ref=7),  # type: ignore[arg-type]
        OSError("broken"),
        SystemExit(1),
    ],
    ids=repr,
)
def test_a_submit_that_proves_nothing_is_lost(settings: Settings, given: Any) -> None:
    settings.AGENTSTOP_CONNECTORS = {"odd": nonsense(submitted=given)}
    run = begin("a task")
    assert run.call("write", {}, connector="odd", key="k").failed
    seen = of_key(run.task_id, "k")
    assert seen.state is OperationState.UNKNOWN
    assert claims(seen.operation.pk) == [("lost", "sender")]
    assert Receipt.objects.get().body


@pytest.mark.parametrize("given", ["done", Answer("done"), OSError("broken"), KeyError("status")], ids=repr)  # type: ignore[arg-type]
def test_a_look_up_that_proves_nothing_changes_nothing(settings: Settings, given: Any) -> None:
    accepted = Answer(Claim.ACCEPTED, ref="r")
    settings.AGENTSTOP_CONNECTORS = {"odd": nonsense(submitted=accepted, looked_up=given, cancelled=given)}
    settings.AGENTSTOP_FOLLOW_UP_BASE = 0.0
    run = begin("a task")
    operation = left_accepted(run)
    stop(run.task_id)
    assert reconcile.work() == 1
    seen = of_key(run.task_id, "k")
    assert (seen.state, seen.cancellation) == (OperationState.ACCEPTED, "sent")
    assert claims(operation) == [("accepted", "provider"), ("lost", "sender")]


def test_a_time_without_its_zone_is_left_out(settings: Settings) -> None:
    answer = Answer(Claim.SUCCEEDED, result="done", at=datetime(2026, 1, 1))
    settings.AGENTSTOP_CONNECTORS = {"odd": nonsense(submitted=answer)}
    assert begin("a task").call("write", {}, connector="odd", key="k").accepted
    assert Receipt.objects.get().provider_at is None


def test_a_cancel_reply_with_nonsense_in_it_is_lost(settings: Settings) -> None:
    accepted, reply = Answer(Claim.ACCEPTED, ref="r"), CancelReply(Claim.CANCELLED, answer="gone")  # type: ignore[arg-type]
    settings.AGENTSTOP_CONNECTORS = {"odd": nonsense(submitted=accepted, cancelled=reply)}
    run = begin("a task")
    left_accepted(run)
    stop(run.task_id)
    assert reconcile.work() == 1
    assert of_key(run.task_id, "k").cancellation == "sent"


def test_garbage_over_http_is_kept_as_it_is(sandbox: SandboxClient, in_thread: InThread) -> None:
    run = begin("a task")
    args = {"label": "a", "text": "b", "seconds": 0, "sandbox": {"nonsense": True}}
    outcome = in_thread(run.call, "notify.post", args, connector="sandbox", key="k").result(HANG_GUARD)
    assert outcome.accepted and outcome.result["text"] == "b"  # what the provider says when it is asked
    operation = of_key(run.task_id, "k").operation
    assert claims(operation.pk) == [("accepted", "provider"), ("succeeded", "read_back")]
    assert sandbox.writes(task="a") == 1
    assert run.context() == [outcome.result]


def test_garbage_of_a_provider_that_cannot_be_asked_proves_no_success(
    sandbox: SandboxClient, in_thread: InThread, settings: Settings
) -> None:
    """R14, R19: 201 says that it was taken; the word for its state may be in what nobody can read."""
    settings.AGENTSTOP_DEADLINE = 2.0
    run = begin("a task")
    args = {"label": "a", "text": "b", "seconds": 0, "sandbox": {"nonsense": True}}
    outcome = in_thread(run.call, "notify.blind", args, connector="sandbox", key="k").result(HANG_GUARD)
    assert outcome.failed and "cannot be asked" in outcome.error
    seen = of_key(run.task_id, "k")
    assert (seen.state, claims(seen.operation.pk)) == (OperationState.ACCEPTED, [("accepted", "provider")])
    let_pass(run.task_id, timedelta(days=8).total_seconds())
    assert of_key(run.task_id, "k").state is OperationState.UNKNOWN
    assert run.context() == []


@pytest.fixture
def stateless(sandbox: SandboxClient, settings: Settings) -> SandboxClient:
    """A provider that has no word for states but the status of its replies."""
    options = sandbox_options(sandbox.address)
    notify = replace(options["actions"]["notify.post"], state_field="")
    connector = {"PROVIDER": PROVIDER, "OPTIONS": {**options, "actions": {**options["actions"], "notify.post": notify}}}
    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector}
    return sandbox


def test_a_later_run_is_not_given_what_could_not_be_read_either(stateless: SandboxClient, in_thread: InThread) -> None:
    """R19: the effect is there and is not made again; the words beside it are for people."""
    run = begin("a task")
    args = {"label": "a", "text": "b", "seconds": 0, "sandbox": {"nonsense": True}}
    first = in_thread(run.call, "notify.post", args, connector="sandbox", key="k").result(HANG_GUARD)
    assert first.failed and "announces JSON and is none" in first.error
    assert of_key(run.task_id, "k").state is OperationState.SUCCEEDED  # 201 says so, whatever the words beside it
    later = begin(run.task_id)
    outcome = in_thread(later.call, "notify.post", args, connector="sandbox", key="k").result(HANG_GUARD)
    assert outcome.failed and "no stored form" in outcome.error
    assert (later.context(), stateless.writes(task="a")) == ([], 1)
