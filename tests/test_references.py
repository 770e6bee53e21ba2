"""Two references of one operation: cancels, look-ups and undoing go to the jobs that are meant (R14, R15, R16, R20).

The provider honours no key here, and is asked and cancelled by reference alone. It does one job for each request: the
sandbox's ledger is the referee.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import reconcile
from agentstop.compensate import compensate
from agentstop.folds import folding
from agentstop.models import Attempt, Operation, Receipt
from agentstop.providers.base import Cancel, Capability, Compensation, LookUp
from agentstop.runs import begin
from agentstop.settlement import settle_by_hand
from agentstop.states import Cancellation, Claim, Job, OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import PROVIDER, sandbox_options
from agentstop.verify import differences
from agentstop.words import manifold, sentences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD
from tests.observed import Observed, observed
from tests.passing import let_pass

pytestmark = pytest.mark.django_db(transaction=True)

BY_REFERENCE = Capability(
    look_up=LookUp.BY_REF,
    authoritative=True,
    settling=timedelta(seconds=2),
    max_age=timedelta(hours=1),
    cancel=Cancel.BEST_EFFORT,
    compensation=Compensation("report.undo"),
)


@pytest.fixture
def provider(sandbox: SandboxClient, settings: Settings) -> SandboxClient:
    options = sandbox_options(sandbox.address)
    report = replace(options["actions"]["report.create"], capability=BY_REFERENCE, look_up_path="{ref}")
    actions = {**options["actions"], "report.create": report}
    settings.AGENTSTOP_CONNECTORS = {"jobs": {"PROVIDER": PROVIDER, "OPTIONS": {**options, "actions": actions}}}
    return sandbox


class Twice:
    """An operation that was sent twice, since a person took the first attempt for failed: `first` is heard late."""

    def __init__(self, provider: SandboxClient, ann: User) -> None:
        self.provider = provider
        self.run = begin("Report", owner=ann)
        provider.hold("working", "first")
        provider.hold("working", "second")
        with self._attempt() as self.handle:
            self.first = self._sent("first")
            self.handle.lost("no answer")
        settle_by_hand(self.handle.id, by=ann, outcome="failed", reason="nothing is to be seen of it")
        with self._attempt() as second:
            self.second = self._sent("second")
            second.accepted(self.second)

    def _attempt(self) -> Any:
        return self.run.dispatch("report.create", connector="jobs", key="k")

    def _sent(self, text: str) -> str:
        body = {"text": text, "label": "k", "seconds": 0}
        ref: str = httpx.post(f"{self.provider.address}/reports", json=body).headers["location"]
        return ref

    def heard_late(self) -> None:
        self.handle.accepted(self.first)

    def finish(self, text: str) -> None:
        self.provider.release("working", text)
        self.provider.settled(text)

    @property
    def ledger(self) -> dict[str, str]:
        return {effect["ref"]: effect["state"] for effect in self.provider.ledger(task="k")["effects"]}

    @property
    def seen(self) -> Observed:
        return observed(self.handle.id)

    @property
    def row(self) -> Operation:
        return Operation.objects.get(pk=self.handle.id)

    def work(self) -> int:
        """What is due later is due now."""
        Operation.objects.filter(follow_up_at__isnull=False).update(follow_up_at=timezone.now() - timedelta(seconds=1))
        return reconcile.work()


@pytest.fixture
def twice(provider: SandboxClient, ann: User) -> Twice:
    return Twice(provider, ann)


def test_a_late_reference_of_an_older_attempt_does_not_hide_the_newer_one(twice: Twice) -> None:
    assert twice.row.ref == twice.second
    twice.heard_late()
    assert (twice.row.ref, twice.row.doubled) == (twice.second, True)
    assert [line.ref for line in twice.seen.told.jobs] == [twice.second, twice.first]
    assert sentences.DOUBLED in twice.seen.reading.evidence
    assert list(differences()) == []


def test_a_stop_has_both_jobs_cancelled(twice: Twice, ann: User) -> None:
    twice.heard_late()
    report = stop(twice.run.task_id, by=ann)
    assert report.open == (twice.handle.id,)
    assert twice.work() == 1
    assert twice.ledger == {twice.first: "cancelled", twice.second: "cancelled"}
    assert (twice.seen.label, twice.seen.cancellation) == (Label.CANCELLED, Cancellation.CONFIRMED)
    named = Attempt.objects.filter(verb="cancel").order_by("number").values_list("number", "ref")
    assert list(named) == [(1, twice.second), (2, twice.first)]
    assert list(differences()) == []


def test_a_reference_that_comes_after_the_first_was_cancelled_is_cancelled_at_once(twice: Twice, ann: User) -> None:
    """The one job is cancelled; of the other nobody knows until its reference is heard, so nothing says "cancelled"."""
    stop(twice.run.task_id, by=ann)
    twice.work()
    assert twice.ledger == {twice.first: "running", twice.second: "cancelled"}
    assert (twice.seen.label, twice.seen.cancellation) == (Label.UNKNOWN, Cancellation.WAITING)
    twice.heard_late()
    assert twice.seen.cancellation is Cancellation.REQUESTED
    assert reconcile.work() == 1  # it is due at once, whatever the back-off of the other was
    assert set(twice.ledger.values()) == {"cancelled"}
    assert twice.seen.label is Label.CANCELLED


def test_with_only_the_last_reference_known_the_other_job_would_have_its_effect(
    twice: Twice, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that this is about: requests named the reference that was heard last."""
    monkeypatch.setattr(folding, "open_ones", lambda jobs: tuple(job.ref for job in _heard_last(jobs)))
    twice.heard_late()
    stop(twice.run.task_id, by=ann)
    for _ in range(3):
        twice.work()
    assert twice.ledger == {twice.first: "cancelled", twice.second: "running"}


def _heard_last(jobs: tuple[Job, ...]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.since)[-1:]


def test_both_jobs_are_looked_up(twice: Twice) -> None:
    twice.heard_late()
    twice.finish("second")
    let_pass(twice.run.task_id, 60)
    assert twice.work() == 1
    looked = Receipt.objects.filter(source="read_back").order_by("pk").values_list("ref", "claim")
    assert set(looked) == {(twice.second, "succeeded"), (twice.first, "progress")}
    assert (twice.seen.state, twice.row.another_open, twice.row.ref) == (OperationState.SUCCEEDED, True, twice.second)


@pytest.mark.parametrize(("end", "doubled"), [("finish", True), ("fail", False)])
def test_after_one_has_succeeded_the_other_is_followed_until_it_is_over(twice: Twice, end: str, doubled: bool) -> None:
    twice.heard_late()
    twice.finish("second")
    twice.work()
    assert twice.row.follow_up_at is not None
    if end == "finish":
        twice.finish("first")
    else:
        httpx.delete(f"{twice.provider.address}{twice.first}")
    twice.work()
    row = twice.row
    assert (row.state, row.another_open, row.doubled, row.follow_up_at) == ("succeeded", False, doubled, None)
    assert twice.work() == 0
    assert list(differences()) == []


def test_a_stop_after_one_has_succeeded_names_it_as_open_and_cancels_the_other(twice: Twice, ann: User) -> None:
    twice.heard_late()
    twice.finish("second")
    twice.work()
    report = stop(twice.run.task_id, by=ann)
    assert report.open == (twice.handle.id,)
    twice.work()
    assert twice.ledger == {twice.first: "cancelled", twice.second: "succeeded"}
    seen = twice.seen
    assert (seen.label, seen.cancellation) == (Label.COMPLETED_BEFORE, Cancellation.MOOT)
    assert [(line.ref, line.text) for line in seen.told.jobs] == [
        (twice.second, manifold.JOBS[Claim.SUCCEEDED]),
        (twice.first, manifold.JOBS[Claim.CANCELLED]),
    ]


def test_the_page_says_of_each_job_what_is_known_of_it(twice: Twice, ann: User, client: Client) -> None:
    twice.heard_late()
    twice.finish("second")
    twice.work()
    stop(twice.run.task_id, by=ann)
    client.force_login(ann)
    page = client.get(f"/tasks/{twice.run.task_id}/").content.decode()
    assert sentences.DOUBLED in page
    asked = sentences.CANCELLATIONS[Cancellation.REQUESTED]
    assert f'<code dir="ltr">{twice.second}</code> {manifold.JOBS[Claim.SUCCEEDED]}' in page
    assert f'<code dir="ltr">{twice.first}</code> {manifold.JOBS[None]} {asked}' in page


@pytest.mark.parametrize("done", ["first", "second"])
def test_what_is_undone_is_the_job_that_was_done(twice: Twice, ann: User, done: str) -> None:
    """Whichever attempt it came from, and whatever was heard last."""
    twice.heard_late()
    twice.finish(done)
    twice.work()
    made = getattr(twice, done)
    assert twice.row.ref == made
    undoing = compensate(twice.handle.id, by=ann)
    assert undoing.future.result(HANG_GUARD).state == "succeeded"
    effects = {effect["ref"]: effect["undone_at"] for effect in twice.provider.ledger(task="k")["effects"]}
    assert [ref for ref, undone_at in effects.items() if undone_at] == [made]
    told = twice.seen.told.undoing
    assert told is not None and told.text == manifold.UNDONE_ONE_OF_SEVERAL


def test_whoever_undoes_it_is_told_that_it_was_perhaps_done_more_than_once(
    twice: Twice, ann: User, client: Client
) -> None:
    twice.heard_late()
    twice.finish("second")
    twice.work()
    client.force_login(ann)
    page = client.get(f"/operations/{twice.handle.id}/undo/").content.decode()
    assert manifold.UNDOES_ONE_OF_SEVERAL in page and twice.second in page


def test_a_lost_attempt_is_not_closed_by_what_a_look_up_says_of_an_earlier_one(twice: Twice, ann: User) -> None:
    """The second attempt's answer is lost, the first one's late: that the first failed says nothing of the second."""
    run = begin("Another", owner=ann)
    with run.dispatch("report.create", connector="jobs", key="k") as first:
        first.lost("no answer")
    settle_by_hand(first.id, by=ann, outcome="failed", reason="nothing is to be seen of it")
    with run.dispatch("report.create", connector="jobs", key="k") as second:
        second.lost("no answer")
    first.accepted(twice.first)
    httpx.delete(f"{twice.provider.address}{twice.first}")
    let_pass(run.task_id, 60)
    reconcile.work()
    assert observed(second.id).state is OperationState.UNKNOWN
    assert list(differences()) == []
