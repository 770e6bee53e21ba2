"""A person settles what no machine can; the provider's later word stands beside it, and decides where it differs.

R23.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User

from agentstop import database, settle
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Decision, Operation, Receipt
from agentstop.runs import begin
from agentstop.settle import Heard
from agentstop.settlement import NotSettled, settle_by_hand
from agentstop.states import Claim, Source
from agentstop.verify import differences

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def unknown(tools: None, ann: User) -> Operation:
    """An operation whose outcome nobody knows."""

    def lost(_: object) -> None:
        raise OSError("reset by peer")

    begin("Upload", owner=ann).call("send", connector="tools", key="k", send=lost)
    return Operation.objects.get()


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "cancelled"])
def test_a_person_settles_an_unknown_outcome(unknown: Operation, ann: User, outcome: str) -> None:
    assert settle_by_hand(unknown.pk, by=ann, outcome=outcome, reason="I asked them").state == outcome
    receipt = Receipt.objects.get(source="person")
    assert (receipt.claim, receipt.by, receipt.body) == (outcome, ann, "I asked them")
    assert list(differences()) == []


def test_the_providers_later_word_decides_and_both_are_kept(unknown: Operation, ann: User) -> None:
    settle_by_hand(unknown.pk, by=ann, outcome="failed", reason="it was not in the list")
    heard = Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())
    assert settle.record(unknown.pk, [heard]).state == "succeeded"
    assert set(Receipt.objects.values_list("claim", "source")) >= {("failed", "person"), ("succeeded", "read_back")}


@pytest.mark.parametrize(("outcome", "reason"), [("succeeded", " "), ("unknown", "why"), ("not_found", "why")])
def test_without_a_reason_or_with_another_outcome_nothing_is_settled(
    unknown: Operation, ann: User, outcome: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=r"outcome|evidence"):
        settle_by_hand(unknown.pk, by=ann, outcome=outcome, reason=reason)
    assert not Receipt.objects.filter(source="person").exists()


def test_what_evidence_has_settled_is_not_settled_by_hand(tools: None, ann: User) -> None:
    begin("Upload", owner=ann).call("send", connector="tools", key="k", send=lambda op: "done")
    with pytest.raises(NotSettled, match="succeeded"):
        settle_by_hand(Operation.objects.get().pk, by=ann, outcome="failed", reason="I wish it had")


def test_it_needs_its_own_right(unknown: Operation, ben: User) -> None:
    with pytest.raises(TaskNotFound):
        settle_by_hand(unknown.pk, by=ben, outcome="failed", reason="x")
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    with pytest.raises(Denied):
        settle_by_hand(unknown.pk, by=User.objects.get(pk=ben.pk), outcome="failed", reason="x")
    assert Decision.objects.filter(verb="settle", effect="denied").count() == 2
