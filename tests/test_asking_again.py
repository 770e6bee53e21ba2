"""R20, R21, R22: how long a provider is asked again, how often, and what it means that it has forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from agentstop import conf, reconcile
from agentstop.follow_up import back_off
from agentstop.models import Operation
from agentstop.runs import Run, begin
from agentstop.states import OperationState
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.words import sentences
from tests.observed import claims, of_key
from tests.passing import let_pass
from tests.providers.calls import closed_port
from tests.reports.acts import NOTIFY, words

DAY = timedelta(days=1).total_seconds()


def test_the_waits_are_doubled_up_to_the_cap_and_differ() -> None:
    """With jitter, so that what failed together is not asked about together."""
    for follow_ups in range(200):
        least = min(conf.FOLLOW_UP_CAP, conf.FOLLOW_UP_BASE * 2 ** min(follow_ups, 30))
        waits = [back_off(follow_ups).total_seconds() for _ in range(20)]
        assert least * 0.75 <= min(waits) < max(waits) <= least * 1.25


def accepted(ann: User, **switches: object) -> Run:
    """The provider has taken it; its answer is heard, and nobody waits for the rest."""
    run = begin("Notify", owner=ann)
    with run.dispatch(NOTIFY, words("job", **switches), connector="sandbox", key="job") as op:
        op.accepted()
    return run


@pytest.mark.django_db(transaction=True)
def test_what_the_provider_has_forgotten_is_unknown_and_not_failed(sandbox: SandboxClient, ann: User) -> None:
    """It was heard of before: that nothing is found proves nothing any more, however authoritative the look-up."""
    run = accepted(ann)
    stop(run.task_id, by=ann)
    let_pass(run.task_id, 60)
    assert reconcile.work() == 1
    seen = of_key(run.task_id, "job")
    assert claims(seen.operation.pk) == [("accepted", "provider"), ("not_found", "read_back")]
    assert (seen.state, seen.reading.evidence) == (OperationState.UNKNOWN, sentences.FORGOTTEN)


@pytest.mark.django_db(transaction=True)
def test_a_provider_that_cannot_be_reached_for_days_is_asked_at_the_cap_and_time_alone_makes_it_unknown(
    sandbox: SandboxClient, ann: User, settings: Settings
) -> None:
    """No answer is no evidence: it ends as unknown by its maximum age, and is still asked about."""
    unreachable = {**settings.AGENTSTOP_CONNECTORS["sandbox"]["OPTIONS"], "base_url": closed_port()}
    connector = {**settings.AGENTSTOP_CONNECTORS["sandbox"], "OPTIONS": unreachable}
    settings.AGENTSTOP_CONNECTORS = {"sandbox": connector}
    run = accepted(ann)
    for days in range(12):
        let_pass(run.task_id, DAY if days else 60)
        assert reconcile.work() == 1
    operation = Operation.objects.get()
    assert claims(operation.pk) == [("accepted", "provider")]
    assert operation.follow_up_at is not None and operation.follow_ups >= 8
    seen = of_key(run.task_id, "job")
    assert (seen.state, seen.reading.evidence) == (OperationState.UNKNOWN, sentences.SIGN_TOO_OLD)
