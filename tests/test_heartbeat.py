"""The lease of an attempt is renewed while its process lives, and not once it is over (R8, R22)."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from agentstop import database, heartbeat
from agentstop.dispatched import Dispatched
from agentstop.exceptions import PassExpired
from agentstop.models import Attempt, Operation
from agentstop.passes import Pass
from agentstop.runs import begin
from agentstop.verify import differences
from tests.conftest import HANG_GUARD

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_send_that_takes_longer_than_its_lease_stays_in_progress(tools: None, settings: Settings) -> None:
    settings.AGENTSTOP_LEASE = 0.6
    settings.AGENTSTOP_LEASE_MARGIN = 0.4
    renewed = threading.Semaphore(0)
    renew = heartbeat.renew

    def counted(passed: Pass) -> bool:
        done = renew(passed)
        renewed.release()
        return done

    def slow(op: Dispatched) -> str:
        for _ in range(8):  # some 1.6 seconds of heartbeats, more than the first lease
            assert renewed.acquire(timeout=HANG_GUARD)
        op.check()
        return "done"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heartbeat, "renew", counted)
        assert begin("Long").call("work", connector="tools", key="k", send=slow, deadline=HANG_GUARD).accepted
    attempt = Attempt.objects.get()
    assert attempt.lease_until - attempt.passed_at > timedelta(seconds=1.0)
    assert list(differences()) == []


def test_a_lease_that_is_over_is_not_renewed(tools: None) -> None:
    with begin("Long").dispatch("work", connector="tools", key="k", deadline=HANG_GUARD) as op:
        past = timezone.now() - timedelta(seconds=1)
        Attempt.objects.update(lease_until=past)
        assert not heartbeat.renew(op._pass)
        assert Attempt.objects.get().lease_until == past
        op.succeeded()


def test_a_renewal_moves_when_the_operation_falls_due(tools: None) -> None:
    with begin("Long").dispatch("work", connector="tools", key="k", deadline=HANG_GUARD) as op:
        before = Operation.objects.get()
        assert heartbeat.renew(op._pass)
        after = Operation.objects.get()
        assert after.lease_until == after.due_at == after.follow_up_at == Attempt.objects.get().lease_until
        assert after.due_at is not None and before.due_at is not None and after.due_at > before.due_at
        op.succeeded()


def test_a_pass_whose_lease_is_over_lets_nothing_leave(tools: None, settings: Settings) -> None:
    settings.AGENTSTOP_LEASE = 0.0
    with pytest.raises(PassExpired), begin("Late").dispatch("work", connector="tools", key="k") as op:
        op.check()
    assert Operation.objects.get().state == "not_sent"
    assert database.now() is not None
