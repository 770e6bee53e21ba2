"""A second attempt: what is heard of the first is read with it, and says nothing of another job (R9, R11, R16)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import database, gate, request, settle
from agentstop.asking import read_back
from agentstop.models import Operation
from agentstop.passes import Pass
from agentstop.providers.base import Answer
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.settlement import settle_by_hand
from agentstop.states import Claim, Source
from agentstop.verify import differences
from tests.soak.clock import move_database_back

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def connectors(settings: Settings) -> None:
    """`by_ref` honours no key, and a look-up needs its reference; `keyed` honours the key, and is asked by it."""
    settings.AGENTSTOP_CONNECTORS = {"world": {"PROVIDER": "tests.soak.connector.WorldProvider"}}


def passed(run: Run, action: str = "by_ref") -> Pass:
    found = gate.open_gate(request.make(run.task_id, run.number, action, {}, {"connector": "world", "key": "k"}))
    assert isinstance(found, Pass)
    return found


def pushed(first: Pass, claim: Claim) -> None:
    """The provider's own word about its job `r1`, which answers no attempt."""
    settle.record(first.operation, [Heard(claim, Source.PROVIDER, database.now(), ref="r1")])


def looked_up(first: Pass, claim: Claim, ref: str) -> str:
    """The state after the provider was asked by a reference."""
    answer = Answer(claim, ref=ref)
    asked = read_back(answer, database.now(), connector="world", action="by_ref")
    return settle.record(first.operation, [asked]).state


def test_a_second_attempt_is_read_with_what_was_heard_of_the_first() -> None:
    run = begin("Report")
    first = passed(run)
    for claim in (Claim.PROGRESS, Claim.FAILED):
        pushed(first, claim)
    assert Operation.objects.get().state == "failed"
    passed(run)
    assert list(differences()) == []


def test_a_look_up_by_reference_says_nothing_of_a_later_attempt_that_returned_none() -> None:
    """Its job has another reference, which nobody has heard of: it may have succeeded."""
    run = begin("Report")
    first = passed(run)
    assert looked_up(first, Claim.FAILED, "r1") == "failed"
    passed(run)
    move_database_back(timedelta(days=1))
    assert looked_up(first, Claim.FAILED, "r1") == "unknown"


def test_a_look_up_by_reference_takes_nothing_back_of_another_job() -> None:
    run = begin("Report")
    first = passed(run)
    assert looked_up(first, Claim.FAILED, "r1") == "failed"
    second = passed(run)
    answer = Heard(Claim.SUCCEEDED, Source.PROVIDER, second.passed_at, second.attempt_id, ref="r2")
    assert settle.record(second.operation, [answer]).state == "succeeded"
    assert looked_up(first, Claim.FAILED, "r1") == "succeeded"


def test_an_incarnation_that_was_followed_by_the_next_is_not_sent_again(ann: User) -> None:
    """It counted as cancelled when the next one was opened; what is heard of it later must not double the effect."""
    run = begin("Report", owner=ann)
    first = passed(run, "keyed")
    settle.record(first.operation, [Heard(Claim.LOST, Source.SENDER, first.passed_at, first.attempt_id)])
    settle_by_hand(first.operation, by=ann, outcome="cancelled", reason="they say that it was called off")
    second = passed(run, "keyed")
    settle.record(first.operation, [Heard(Claim.ACCEPTED, Source.PROVIDER, first.passed_at, first.attempt_id)])
    settle.record(first.operation, [Heard(Claim.NOT_FOUND, Source.READ_BACK, database.now())])
    move_database_back(timedelta(hours=1))
    assert Operation.objects.get(pk=first.operation).state == "unknown"
    again = passed(run, "keyed")
    assert (again.operation, again.attempt) == (second.operation, 2)
