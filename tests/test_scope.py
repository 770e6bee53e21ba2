"""What a stop is about: this task, not its connection, its worker or whoever looks at it (R30, R32, R34).

Each race in `tests/races` has an independent task beside it, too; on an MCP server's one connection it is
`mcp/test_connection.py`, and ten at once are in `reports/test_whom_it_hits.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from agentstop.models import Decision, Operation
from agentstop.runs import Run, begin
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.observed import task_of
from tests.races.senders import Got, OtherProcess
from tests.reports.acts import NOTIFY, assert_agrees, counts, words
from tests.reports.conftest import patient, start_worker  # noqa: F401  fixtures

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_stop_leaves_the_worker_its_connection_and_the_other_tasks_on_it_as_they_were(
    sandbox: SandboxClient,
    start_worker: Callable[..., OtherProcess],  # noqa: F811
    ann: User,
    ben: User,
) -> None:
    """R30, R34: one process, one client, one object of the host's; another task, another user, and an older run."""
    room, worker = Group.objects.create(name="room"), start_worker()
    runs = {
        name: begin(name, owner=owner, subject=room) for name, owner in (("main", ann), ("same", ann), ("ben's", ben))
    }
    sandbox.hold("received")
    for name, run in runs.items():
        worker.start(name, run, NOTIFY, words(name))
    sandbox.wait("received", count=3)
    client = worker.client()
    assert stop(runs["main"].task_id, by=ann).open == (Operation.objects.get(key="main").pk,)
    assert worker.got("main") == Got("ignored")
    sandbox.release("received")
    assert [worker.got(name) for name in ("same", "ben's")] == [Got("accepted")] * 2
    worker.start("next", runs["ben's"], NOTIFY, words("next"))
    worker.start("late", runs["main"], NOTIFY, words("late"))
    assert [worker.got(name) for name in ("next", "late")] == [Got("accepted"), Got("ignored", "stopped")]
    assert worker.client() == client
    for name in ("same", "ben's"):
        assert (task_of(runs[name]).state, counts(sandbox, runs[name], name)["cancels"]) == ("active", 0)
    assert set(Decision.objects.filter(verb__in=["stop", "cancel"]).values_list("task", flat=True)) == {
        runs["main"].task_id
    }
    worker.rest()
    assert_agrees(sandbox, *runs.values())


class TestAHostThatStopsWhenNobodyIsThere:
    """R32: it may choose to; the record says that no person did it."""

    def test_is_told_as_a_policy_and_not_as_a_press(self, ann: User) -> None:
        run = begin("Report", owner=ann)
        assert stop(run.task_id, run=run.number, policy="nobody has looked for an hour").stopped
        decision = Decision.objects.get(verb="stop")
        assert (decision.by, decision.policy) == (None, "nobody has looked for an hour")
        assert task_of(run).stopped_by is None
        client = Client()
        client.force_login(ann)
        shown = client.get(f"/tasks/{run.task_id}/").content.decode()
        assert "Stopped by <bdi>nobody has looked for an hour</bdi>" in shown

    def test_and_is_late_stops_no_run_that_somebody_has_begun_since(self, ann: User) -> None:
        old = begin("Report", owner=ann)
        new: Run = begin(old.task_id, by=ann)
        assert stop(old.task_id, run=old.number, policy="nobody looks").why == "newer_run"
        new.check()
