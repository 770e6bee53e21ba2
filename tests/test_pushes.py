"""A provider's own words, unasked: kept on the operation that they are about, whatever has become of its run.

R15, R20.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentstop.models import Operation, Receipt, Task
from agentstop.pushes import push
from agentstop.runs import begin
from agentstop.stop import stop
from agentstop.verify import differences

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def accepted(tools: None) -> Operation:
    run = begin("x")
    with run.dispatch("work", connector="tools", key="k") as op:
        op.accepted(ref="job-7")
    stop(run.task_id, policy="test")
    return Operation.objects.get()


@pytest.mark.parametrize(
    ("claim", "state"), [("succeeded", "succeeded"), ("cancelled", "cancelled"), ("running", "accepted")]
)
def test_a_push_after_the_stop_settles_the_operation_and_not_the_task(
    accepted: Operation, claim: str, state: str
) -> None:
    assert push("tools", claim, ref="job-7", body={"done": 1}) == [accepted.pk]
    accepted.refresh_from_db()
    assert (accepted.state, Task.objects.get().state) == (state, "stopped")
    assert Receipt.objects.latest("pk").body == '{"done":1}'
    assert list(differences()) == []


def test_a_push_by_our_key_is_known_too_and_a_doubled_one_is_kept(accepted: Operation) -> None:
    for _ in range(2):
        assert push("tools", "succeeded", key=str(accepted.idempotency_key)) == [accepted.pk]
    assert Receipt.objects.filter(claim="succeeded").count() == 2


def test_a_push_about_nothing_that_is_known_here_is_answered_so(accepted: Operation) -> None:
    assert push("tools", "succeeded", ref="job-8") == push("other", "succeeded", ref="job-7") == []
    assert push("tools", "succeeded", key="no uuid") == []


@pytest.mark.parametrize("named", [{"claim": "lost", "ref": "job-7"}, {"claim": "succeeded"}])
def test_a_push_that_says_nothing_is_refused(accepted: Operation, named: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"claim must be|Pass ref="):
        push("tools", **named)
