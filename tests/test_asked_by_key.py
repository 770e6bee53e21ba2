"""Two jobs under one key, at a provider that is asked by key and tells of one job: the other stays what is known of it.

R14, R16, R20: a success is not taken back by what is said of another job, and that one is followed, or told as unknown.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import reconcile
from agentstop.folds import evidence
from agentstop.models import Operation
from agentstop.providers.base import Answer, Cancel, CancelReply, Capability, Context, LookUp, Provider, Submission
from agentstop.runs import begin
from agentstop.settlement import settle_by_hand
from agentstop.states import Cancellation, Claim, OperationState, Source
from agentstop.stop import stop
from agentstop.verify import differences
from agentstop.words import manifold
from agentstop.words.wording import Label
from tests.observed import Observed, observed

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, SECOND = "job-1", "job-2"


class Forgetful(Provider):
    """Has forgotten the key of its first job, made another, and acknowledges that it is to be given up."""

    jobs: dict[str, Claim] = {}
    tells_of = SECOND
    looked = 0

    def capability(self, action: str) -> Capability:
        return Capability(look_up=LookUp.BY_KEY, cancel=Cancel.BEST_EFFORT)

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        context.before_write()
        self.jobs[submission.ref] = Claim.CANCELLED
        return CancelReply(Claim.CANCELLED)

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        Forgetful.looked += 1
        return Answer(self.jobs[self.tells_of], Source.READ_BACK, ref=self.tells_of)


@pytest.fixture
def provider(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> type[Forgetful]:
    settings.AGENTSTOP_CONNECTORS = {"jobs": {"PROVIDER": "tests.test_asked_by_key.Forgetful"}}
    monkeypatch.setattr(Forgetful, "jobs", {FIRST: Claim.SUCCEEDED, SECOND: Claim.RUNNING})
    monkeypatch.setattr(Forgetful, "looked", 0)
    return Forgetful


def stopped_beside_a_success(ann: User) -> int:
    """The first attempt's success is heard late, when a second one has been accepted; then the task is stopped."""
    run = begin("Report", owner=ann)
    with run.dispatch("report.create", connector="jobs", key="k") as first:
        first.lost("no answer")
    settle_by_hand(first.id, by=ann, outcome="failed", reason="nothing is to be seen of it")
    with run.dispatch("report.create", connector="jobs", key="k") as second:
        second.accepted(SECOND)
    first.succeeded("done", ref=FIRST)
    assert stop(run.task_id, by=ann).open == (first.id,)
    return first.id


def turn(operation: int) -> Observed:
    """What is due later is due now."""
    late = timezone.now() - timedelta(seconds=1)
    Operation.objects.filter(pk=operation, follow_up_at__isnull=False).update(follow_up_at=late)
    reconcile.work()
    return observed(operation)


def lines(seen: Observed) -> dict[str, str]:
    return {line.ref: line.text for line in seen.told.jobs}


def test_the_other_job_is_asked_about_until_it_is_known_what_became_of_it(provider: type[Forgetful], ann: User) -> None:
    operation = stopped_beside_a_success(ann)
    seen = turn(operation)
    assert seen.cancellation is Cancellation.ACKNOWLEDGED
    assert lines(seen)[SECOND].startswith(manifold.JOBS[None])
    seen = turn(operation)
    assert (seen.label, seen.cancellation, seen.told.is_open) == (Label.COMPLETED_BEFORE, Cancellation.MOOT, False)
    assert lines(seen) == {FIRST: manifold.JOBS[Claim.SUCCEEDED], SECOND: manifold.JOBS[Claim.CANCELLED]}
    assert (seen.operation.follow_up_at, provider.looked) == (None, 1)
    assert list(differences()) == []


def test_where_the_provider_tells_only_of_the_first_the_other_stays_open_and_unknown(
    provider: type[Forgetful], ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "tells_of", FIRST)
    operation = stopped_beside_a_success(ann)
    for _ in range(3):
        seen = turn(operation)
    assert (seen.state, seen.told.is_open) == (OperationState.SUCCEEDED, True)
    assert lines(seen)[SECOND].startswith(manifold.JOBS[None])
    assert seen.operation.follow_up_at is not None  # it is asked again
    assert list(differences()) == []


def test_if_a_look_up_replaced_what_was_said_of_another_job_the_success_would_be_lost(
    provider: type[Forgetful], ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_replaces", lambda look, word, several: word.seen_at < look.asked_at)
    operation = stopped_beside_a_success(ann)
    turn(operation)
    assert turn(operation).state is not OperationState.SUCCEEDED
