"""One stop through whatever door, however often it is pressed; and nothing but a person begins the task again (R4)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from agentstop import alive, inputs, pushes
from agentstop.compensate import compensate
from agentstop.exceptions import AgentStopError
from agentstop.heartbeat import extend
from agentstop.models import Decision
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.reconcile import look_up_now, work
from agentstop.runs import Run, begin, serve
from agentstop.settlement import settle_by_hand
from agentstop.states import Claim
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of
from tests.reports.acts import REPORT, UPLOAD, ask, asked, long_after, operation

pytestmark = pytest.mark.django_db(transaction=True)

ADMIN_LIST, ADMIN_STOP = "/admin/agentstop/task/", "/admin/agentstop/task/stop/"


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def at_the_desk(user: User, run: Run) -> Callable[[], Any]:
    """The desk has asked, and the press is the answer."""
    client = browser(user)
    chosen = {"action": "stop_tasks", "index": "0", "_selected_action": [run.task_id]}
    asked = client.post(ADMIN_LIST, chosen)
    return lambda: client.post(ADMIN_STOP, {"tasks": asked.context["choice"].value, "reason": "at the desk"})


def test_pressed_in_two_tabs_at_the_desk_and_by_code_at_once_it_is_one_stop(
    tools: None, in_thread: InThread, ann: User, olga: User
) -> None:
    """The first counts, with its name and reason, and the three others are noted."""
    run = begin("Notify", owner=ann)
    go, form = threading.Barrier(4, timeout=HANG_GUARD), {"run": run.number, "reason": "in a tab"}
    page, panel = browser(ann), browser(ann)
    doors: list[Callable[[], Any]] = [
        lambda: page.post(f"/tasks/{run.task_id}/stop/", form),
        lambda: panel.post(f"/tasks/{run.task_id}/stop/", form, headers={"Agentstop-Request": "panel"}),
        at_the_desk(olga, run),
        lambda: stop(run.task_id, policy="budget", reason="by code"),
    ]

    def press(door: Callable[[], Any]) -> Any:
        go.wait()
        return door()

    answers = [pressed.result(HANG_GUARD) for pressed in [in_thread(press, door) for door in doors]]
    assert [answer.status_code for answer in answers[:3]] == [302, 200, 200]
    presses = Decision.objects.filter(task=run.task_id, verb="stop")
    assert sorted(presses.values_list("effect", flat=True)) == ["applied", "noted", "noted", "noted"]
    first, task = presses.get(effect="applied"), task_of(run)
    assert (task.stop_decision, task.stopped_by, task.stop_reason) == (first, first.by, first.reason)
    assert (task.state, answers[3].stopped) == ("stopped", first.policy == "budget")


def in_flight(run: Run) -> None:
    """Of what the task has done: a job under way, one that is done, and a text that waits."""
    with run.dispatch(REPORT, connector="sandbox", key="job") as op:
        op.accepted("7")
    assert ask(run, "done", UPLOAD).accepted
    inputs.add(run.task_id, "go on")


def sent(run: Run) -> tuple[int, int]:
    """The job under way, and its attempt."""
    job = operation(run, "job")
    return job.pk, job.tries.get().pk


Act = Callable[[Run, User], Any]
ACTS: dict[str, Act] = {
    "a heartbeat": lambda run, ann: alive.beat([(run.task_id, run.number)]),
    "its sender's heartbeat": lambda run, ann: extend(*sent(run), 30.0),
    "a check": lambda run, ann: run.check(),
    "the run's own end": lambda run, ann: run.finish(),
    "its failure": lambda run, ann: run.fail("late"),
    "its process": lambda run, ann: run.halted(),
    "its block": lambda run, ann: run.__enter__().__exit__(None, None, None),
    "a settling": lambda run, ann: settle_by_hand(operation(run, "job").pk, by=ann, outcome="failed", reason="asked"),
    "a late success": lambda run, ann: pushes.push("sandbox", Claim.SUCCEEDED, ref="7", body="late"),
    "a retry": lambda run, ann: asked(run, "again"),
    "a redelivered job": lambda run, ann: begin(run.task_id),
    "a token": lambda run, ann: Run.from_token(run.token).call("x", connector="tools", key="x", send=lambda op: 1),
    "a child": lambda run, ann: begin("child", serves=[run]),
    "a link": lambda run, ann: serve(run.task_id, begin("other", owner=ann)),
    "a resume": lambda run, ann: resume(run.task_id, by=ann),
    "a pause": lambda run, ann: pause(run.task_id, by=ann),
    "a text": lambda run, ann: inputs.add(run.task_id, "please", by=ann),
    "a look-up": lambda run, ann: look_up_now(operation(run, "job").pk, by=ann),
    "an undoing": lambda run, ann: compensate(operation(run, "done").pk, by=ann),
    "time": lambda run, ann: long_after(run),
    "the worker": lambda run, ann: work(),
    "a command": lambda run, ann: call_command("agentstop_verify", verbosity=0),
}


REFUSED = {"a check", "a redelivered job", "a child", "a link"}


def stored(run: Run) -> dict[str, Any]:
    """The state of its task, without times: the worker's turn lets some pass."""
    names = ("state", "live_run", "last_run", "stopped_by", "stop_reason", "stop_decision")
    task = task_of(run)
    return {name: getattr(task, name) for name in names}


def test_nothing_but_a_person_who_begins_a_run_makes_a_stopped_task_go_on(
    sandbox: SandboxClient, ann: User, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that code, providers, workers and people may do beside that, one after the other, each twice."""
    run = begin("Report", owner=ann)
    in_flight(run)
    stop(run.task_id, by=ann)
    before, refused = stored(run), set[str]()
    for name, act in ACTS.items():
        for turn in range(2):
            try:
                act(run, ann)
            except AgentStopError:
                refused |= {name} if turn == 0 else set()
            assert stored(run) == before, name
    assert refused == REFUSED
    assert list(RunRow.objects.filter(task=run.task_id).values_list("number", "state")) == [(1, "stopped")]
    assert not RunRow.objects.filter(task__title="child").exists()
    assert list(differences()) == []
    assert begin(run.task_id, by=ann).number == 2
