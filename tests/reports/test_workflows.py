"""Chains, groups and chords of jobs: stopped at any joint, nothing is sent behind it, whatever is delivered (R10)."""

from __future__ import annotations

import threading
from itertools import chain

import pytest

from agentstop import exceptions
from agentstop.exceptions import Refused
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.conftest import HANG_GUARD, InThread
from tests.reports.acts import asked, assert_agrees, refusals

pytestmark = pytest.mark.django_db(transaction=True)

# Stages that follow each other; the jobs of one run beside each other.
SHAPES = {
    "chain": [["one"], ["two"], ["three"]],
    "group": [["first"], ["one", "two", "three"]],
    "chord": [["one", "two"], ["when both are done"]],
}
JOINTS = [(shape, joint) for shape, stages in SHAPES.items() for joint in range(len(stages))]


@pytest.mark.parametrize(("shape", "joint"), JOINTS)
def test_behind_the_joint_at_which_it_is_stopped_nothing_is_sent(
    sandbox: SandboxClient, in_thread: InThread, shape: str, joint: int
) -> None:
    """The queue knows nothing of the stop: it goes on to deliver every job, by its token, in its order."""
    run, stages = begin(shape), SHAPES[shape]

    def deliver(stage: list[str]) -> list[str]:
        together = threading.Barrier(len(stage))

        def job(text: str) -> str:
            together.wait(HANG_GUARD)
            return asked(Run.from_token(run.token), text)

        return [each.result(HANG_GUARD) for each in [in_thread(job, text) for text in stage]]

    told = [deliver(stage) for stage in stages[:joint]]
    stop(run.task_id, policy="test")
    told += [deliver(stage) for stage in stages[joint:]]
    before, behind = list(chain(*stages[:joint])), list(chain(*stages[joint:]))
    assert list(chain(*told)) == ["accepted"] * len(before) + ["stopped"] * len(behind)
    assert sorted(effect["text"] for effect in sandbox.ledger()["effects"]) == sorted(before)
    assert refusals(run) == {(text, "stopped"): 1 for text in behind}
    assert_agrees(sandbox, run)


def test_a_refusal_is_of_a_kind_that_frameworks_do_not_retry() -> None:
    """They retry connections, time-outs and plain exceptions: a refusal is none of these, and says why in a word."""
    kinds = {kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Refused)}
    assert len(kinds) >= 8
    for kind in kinds:
        assert issubclass(kind, RuntimeError) and not issubclass(kind, OSError | TimeoutError), kind
        assert kind is Refused or kind.reason
