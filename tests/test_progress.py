"""How far a provider says that it is: the last word about what was sent last, while it may still go on (R15, R17)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils.translation import override

from agentstop import bodies, database, settle
from agentstop.dispatched import Dispatched
from agentstop.models import Operation, Receipt
from agentstop.reports.operation_report import Progress
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import InThread
from tests.counted import eventually
from tests.observed import of_key
from tests.passing import let_pass
from tests.test_views import browser, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


@pytest.fixture
def run(ann: User) -> Run:
    return begin("Report", owner=ann)


def told(run: Run) -> Progress | None:
    return of_key(run.task_id, "k").told.progress


def left(run: Run, hear: Callable[[Dispatched], Any]) -> Dispatched:
    with run.dispatch("report.create", connector="tools", key="k") as op:
        op.accepted("7")
        hear(op)
    return op


def test_the_last_share_is_told_with_when_it_was_heard(run: Run) -> None:
    left(run, lambda op: [op.progress(share) for share in (0.1, 0.25, 0.4)])
    found = told(run)
    assert found is not None
    last = Receipt.objects.filter(claim="progress").latest("pk")
    assert (found.fraction, found.text, found.at) == (
        0.4,
        "The provider last said that it was 40 % done.",
        last.seen_at,
    )


def test_a_share_that_was_heard_earlier_and_stored_later_is_not_the_last(run: Run) -> None:
    """R15: the order of arrival plays no part."""
    op = left(run, lambda op: op.progress(0.6))
    early = database.now() - timedelta(seconds=0.001)
    attempt = Receipt.objects.filter(claim="accepted").get()
    heard = Heard(
        Claim.PROGRESS, Source.PROVIDER, attempt.asked_at, body=bodies.store(0.2), answered_at=attempt.seen_at
    )
    settle.record(op.id, [heard])
    found = told(run)
    assert found is not None and found.fraction == 0.6 and found.at < early + timedelta(minutes=1)


@pytest.mark.parametrize("text", ["nonsense", "", "NaN", "1.5", "-0.1", "inf", "[0.5]"])
def test_what_is_no_share_is_not_told(run: Run, text: str) -> None:
    op = left(run, lambda op: None)
    settle.record(op.id, [Heard(Claim.PROGRESS, Source.PROVIDER, database.now(), body=bodies.store(text))])
    assert told(run) is None


def test_nothing_is_told_where_the_provider_said_nothing_or_it_is_over(run: Run) -> None:
    op = left(run, lambda op: None)
    assert told(run) is None
    op.progress(0.9)
    assert told(run) is not None
    op.succeeded("done")
    assert told(run) is None


def test_how_far_an_earlier_attempt_was_says_nothing_of_a_later_one(run: Run) -> None:
    op = left(run, lambda op: op.progress(0.9))
    op.failed("it broke")
    let_pass(run.task_id, 60)
    left(run, lambda op: None)
    assert told(run) is None


def test_it_is_told_of_what_goes_on_after_a_stop(run: Run, ann: User) -> None:
    left(run, lambda op: op.progress(0.5))
    stop(run.task_id, by=ann)
    found = told(run)
    assert found is not None and found.fraction == 0.5


def test_the_page_draws_it_with_words_and_a_number_for_machines_in_any_language(run: Run, ann: User) -> None:
    left(run, lambda op: op.progress(0.4))
    drawn = (
        r'<progress max="1" value="0\.4" aria-label="[^"]+">The provider last said that it was 40 % done\.</progress>'
    )
    text = text_of(browser(ann).get(f"/tasks/{run.task_id}/"))
    assert re.search(drawn, text)
    assert "The provider last said that it was 40 % done. <span" in text.replace("</progress> ", "")
    with override("de"):
        assert 'value="0.4"' in text_of(browser(ann).get(f"/tasks/{run.task_id}/", headers={"accept-language": "de"}))


def test_a_real_provider_that_tells_it_is_shown_while_it_works(
    sandbox: SandboxClient, in_thread: InThread, ann: User
) -> None:
    run = begin("Report", owner=ann)
    args = {"text": "slow", "label": "slow", "seconds": 3600}
    caller = in_thread(run.call, "report.create", args, connector="sandbox", key="k")
    try:
        eventually(lambda: Receipt.objects.filter(claim="progress").exists(), True)
        assert told(run) is not None
    finally:
        stop(run.task_id, by=ann)
    assert caller.result(60).ignored
    assert Operation.objects.get().state == "accepted"
