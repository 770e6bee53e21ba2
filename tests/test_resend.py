"""A second attempt: what it finds written of the first is read with it at once."""

from __future__ import annotations

import pytest

from agentstop import database, gate, request, settle
from agentstop.models import Operation
from agentstop.passes import Pass
from agentstop.runs import Run, begin
from agentstop.settle import Heard
from agentstop.states import Claim, Source
from agentstop.verify import differences

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def passed(run: Run) -> Pass:
    found = gate.open_gate(request.make(run.task_id, run.number, "write", {}, {"connector": "tools", "key": "k"}))
    assert isinstance(found, Pass)
    return found


def pushed(first: Pass, claim: Claim) -> None:
    """The provider's own word about its job `r1`, which answers no attempt."""
    settle.record(first.operation, [Heard(claim, Source.PROVIDER, database.now(), ref="r1")])


def test_a_second_attempt_is_read_with_what_was_heard_of_the_first() -> None:
    run = begin("Report")
    first = passed(run)
    for claim in (Claim.PROGRESS, Claim.FAILED):
        pushed(first, claim)
    assert Operation.objects.get().state == "failed"
    passed(run)
    assert list(differences()) == []
