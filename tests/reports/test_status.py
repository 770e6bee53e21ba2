"""Status lies or sticks: what is shown follows from what is known: at once, after a crash, when nobody reports back.

R14, R17, R22, R23.

Shown elsewhere:

| case | where |
|---|---|
| a dead worker: stopped at once, its operation unknown when its lease is over | `races/test_killed.py` |
| a task whose run never began is stopped at once | `test_stop.py`, `website/test_queue.py` |
| finish against stop, a hundred seeds: one final state, and both answers match it | `test_lifecycle.py` |
| a socket announces nothing that is not committed, or was rolled back | `live/test_pushes.py` |
| a list gets the final state without reload | `live/test_lists.py`, `browser/test_pages.py` |
| nothing is added, changed or deleted in the admin | `admin/test_pages.py` |
| an acknowledged cancel is not a cancelled operation | `races/test_cancelling.py`, `folding/test_cancellation.py` |
| a state that was changed by hand is found | `test_verify.py` |
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agentstop import sending
from agentstop.dispatched import Dispatched
from agentstop.exceptions import Stopped
from agentstop.models import Decision, Operation, Receipt
from agentstop.models import Run as RunRow
from agentstop.pause import pause
from agentstop.reconcile import work
from agentstop.runs import Run, begin
from agentstop.settlement import settle_by_hand
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.verify import differences
from agentstop.words.wording import Label
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.observed import Observed, claims, observed, task_of
from tests.reports.acts import (
    NOTIFY,
    REPORT,
    ask,
    asked,
    assert_agrees,
    counts,
    long_after,
    operation,
    page,
    seen,
    words,
)
from tests.reports.conftest import StartWorker
from tests.reports.pressing import IN_THE_MIDDLE, web_process

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_stop_is_never_counted_as_a_failure(
    sandbox: SandboxClient, ann: User, in_thread: InThread, caplog: pytest.LogCaptureFixture
) -> None:
    """Something was in flight, something listed, something refused; the agent's code ends by the stop's exception."""
    run, entered = begin("Report", owner=ann), threading.Event()
    run.prepare(NOTIFY, words("listed"), connector="sandbox", key="listed")
    sandbox.hold("working", "job")

    def agent() -> None:
        with run:
            entered.set()
            ask(run, "job", REPORT)
            ask(run, "next")
            run.check()

    ended = in_thread(pytest.raises, Stopped, agent)
    assert entered.wait(HANG_GUARD)
    sandbox.wait("working", "job")
    eventually(lambda: seen(run, "job").state, "accepted")  # its reference is known, without which it is not cancelled
    with caplog.at_level(logging.INFO):
        stop(run.task_id, by=ann)
        ended.result(HANG_GUARD)
        while work():
            pass
    labels = [seen(run, key).label for key in ("job", "listed", "next")]
    assert labels == [Label.CANCELLED, Label.NOT_SENT, Label.NOT_SENT]
    row = RunRow.objects.get(task=run.task_id)
    assert (row.state, row.error, task_of(run).state) == ("stopped", "", "stopped")
    assert "failed" not in page(ann, run).lower()
    assert not Receipt.objects.filter(claim="failed").exists()
    assert not Decision.objects.filter(verb="fail").exists()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert_agrees(sandbox, run)


def test_the_tools_own_error_at_a_stop_is_an_unknown_outcome_and_no_failure_of_the_run(
    tools: None, in_thread: InThread, ann: User
) -> None:
    """A tool breaks off with an error of its own because of the stop: the error is kept where it belongs."""
    run, entered = begin("Write", owner=ann), threading.Event()

    def tool(op: Dispatched) -> None:
        entered.set()
        assert op.stop_signal.wait(HANG_GUARD)
        raise ConnectionAbortedError("cut off")

    in_thread(lambda: entered.wait(HANG_GUARD) and stop(run.task_id, by=ann))
    with pytest.raises(Stopped), run:
        assert run.call("write", connector="tools", key="k", send=tool).ignored
        run.check()
    sending.close()
    assert seen(run, "k").label is Label.UNKNOWN
    assert RunRow.objects.get(task=run.task_id).state == "stopped"
    assert task_of(run).state == "stopped"


def test_a_paused_task_is_stopped_at_once_and_what_it_held_back_is_not_sent(tools: None, ann: User) -> None:
    """Held by a pause, with one operation listed and none sent."""
    run = begin("Paused", owner=ann)
    run.prepare("write", connector="tools", key="k")
    assert pause(run.task_id, by=ann)
    report = stop(run.task_id, by=ann)
    assert (report.stopped, report.open, report.never_sent) == (True, (), (operation(run, "k").pk,))
    assert (task_of(run).state, RunRow.objects.get(task=run.task_id).state) == ("stopped", "stopped")
    assert seen(run, "k").label is Label.NOT_SENT
    called = run.call("write", connector="tools", key="k", send=lambda op: "sent")
    assert called.ignored and isinstance(called.refusal, Stopped)


def finish(op: Dispatched, run: Run, user: User) -> None:
    run.finish()


def fail(op: Dispatched, run: Run, user: User) -> None:
    run.fail("gave up, cancelled")


def press(op: Dispatched, run: Run, user: User) -> None:
    for _ in range(2):
        stop(run.task_id, by=user, reason="cancelled")


def supersede(op: Dispatched, run: Run, user: User) -> None:
    begin(task_of(run))


def report_everything(op: Dispatched, run: Run, user: User) -> None:
    op.accepted("7")
    op.progress(1.0)
    op.lost("cancelled")


def ask_over_http(op: Dispatched, run: Run, user: User) -> None:
    client = Client()
    client.force_login(user)
    said = {"run": run.number, "operation": op.id, "state": "cancelled", "outcome": "cancelled", "claim": "cancelled"}
    for address in ("", "panel/", "stop/", "look-up/"):
        client.post(f"/tasks/{run.task_id}/{address}", said)


def ask_the_admin(op: Dispatched, run: Run, user: User) -> None:
    User.objects.create_superuser("root", password="root")
    client = Client()
    assert client.login(username="root", password="root")
    for model, pk in (("operation", op.id), ("receipt", None)):
        address = f"/admin/agentstop/{model}/{f'{pk}/change' if pk else 'add'}/"
        answer = client.post(address, {"state": "cancelled", "claim": "cancelled", "operation": op.id})
        assert answer.status_code == 403


ACTS: list[Callable[[Dispatched, Run, User], None]] = [
    finish, fail, press, supersede, report_everything, ask_over_http, ask_the_admin,
]  # fmt: skip


def test_nothing_that_can_be_asked_for_makes_an_operation_cancelled_without_evidence(tools: None, ann: User) -> None:
    """Every verb of the API, its addresses and the admin, while an operation is in flight at a mute provider."""
    for act in ACTS:
        run = begin(act.__name__, owner=ann)
        with run.dispatch("write", connector="tools", key="k") as op:
            act(op, run, ann)
        work()
        long_after(run)
        assert seen(run, "k").label in {Label.UNKNOWN, Label.STILL_ACTIVE, Label.IN_PROGRESS}, act.__name__
        assert operation(run, "k").state != "cancelled", act.__name__
        assert "cancelled" not in {claim for claim, _ in claims(op.id)}, act.__name__


def test_only_a_persons_word_with_a_reason_settles_it_and_is_shown_as_theirs(tools: None, ann: User) -> None:
    """The one way to call it cancelled without the provider: by name, with a reason, told as such."""
    run = begin("Write", owner=ann)
    with run.dispatch("write", connector="tools", key="k") as op:
        op.lost("no answer")
    with pytest.raises(ValueError, match="reason="):
        settle_by_hand(op.id, by=ann, outcome="cancelled", reason=" ")
    assert seen(run, "k").label is Label.UNKNOWN
    settle_by_hand(op.id, by=ann, outcome="cancelled", reason="they told me on the phone")
    told = seen(run, "k")
    assert told.label is Label.CANCELLED
    assert "A person settled it" in told.reading.evidence
    assert "they told me on the phone" in Receipt.objects.get(operation=op.id, source="person").body


def look_up(user: User, told: Observed) -> None:
    """Press the button that the page offers for it."""
    client = Client()
    client.force_login(user)
    client.post(f"/tasks/{told.operation.task_id}/look-up/", {"operation": told.operation.pk})


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
def test_a_hung_worker_leaves_a_page_that_says_what_can_be_done_until_the_evidence_comes(
    sandbox: SandboxClient, start_worker: StartWorker, ann: User, ends: str
) -> None:
    """It hangs while the provider works; its lease ends; in the end page and ledger say the same, and stay so."""
    run, worker = begin("Report", owner=ann), start_worker()
    sandbox.hold("effect", "job")
    sandbox.hold("working", "job")
    worker.start("job", run, REPORT, words("job"))
    sandbox.wait("working", "job")
    worker.freeze()
    assert "in progress" in page(ann, run)
    long_after(run)
    told = seen(run, "job")
    assert told.label is Label.UNKNOWN
    shown = page(ann, run)
    assert all(sentence in shown for sentence in (told.reading.name, told.reading.evidence, told.reading.next_step))
    assert f'form="agentstop-task-{run.task_id}-look-up"' in shown

    if ends == "cancelled":
        stop(run.task_id, by=ann)
        look_up(ann, told)  # which brings the reference that a cancel needs
        assert "cancelled" not in seen(run, "job").reading.name
    else:
        sandbox.release("working", "job")
        sandbox.settled("job")
        look_up(ann, told)
    while work():
        pass
    expected = {"completed": Label.COMPLETED, "cancelled": Label.CANCELLED}[ends]
    assert seen(run, "job").label is expected
    assert seen(run, "job").reading.name in page(ann, run)
    assert_agrees(sandbox, run)

    worker.thaw()
    sandbox.release("effect", "job")
    worker.got("job")
    worker.rest()
    assert seen(run, "job").label is expected
    assert counts(sandbox, run, "job")["submits"] == 1
    assert_agrees(sandbox, run)


def test_a_stop_outlives_the_web_process_that_took_it(sandbox: SandboxClient, database_url: str, ann: User) -> None:
    """Killed the moment it has answered: whoever loads the page reads stopped, and the agent sends nothing."""
    run = begin("Notify", owner=ann)
    with web_process(database_url, run) as answered:
        assert answered == "302"
    task = task_of(run)
    assert (task.state, task.stop_reason, task.stopped_by) == ("stopped", "from the page", ann)
    shown = page(ann, run)
    assert "Stopped. Nothing new will be sent." in shown and "from the page" in shown
    assert asked(run, "job") == "stopped"
    assert sandbox.ledger()["effects"] == []


def test_a_press_whose_web_process_died_before_it_was_committed_has_stopped_nothing_and_holds_nobody(
    sandbox: SandboxClient, database_url: str, ann: User
) -> None:
    """No answer was given, so none was false: the task goes on, and the next press stops it."""
    run = begin("Notify", owner=ann)
    with web_process(database_url, run, IN_THE_MIDDLE) as said:
        assert said == "not committed"
        assert task_of(run).state == "active"
    assert task_of(run).state == "active"
    assert ask(run, "job").accepted
    assert stop(run.task_id, by=ann).stopped
    assert asked(run, "next") == "stopped"
    assert list(differences()) == []


def test_what_is_read_is_brought_up_to_now_though_nothing_has_looked_since(sandbox: SandboxClient, ann: User) -> None:
    """No worker runs: the stored word is old, and the page, the report and the answer of a press are not."""
    run = begin("Notify", owner=ann)
    with run.dispatch(NOTIFY, connector="sandbox", key="job") as op:
        long_after(run)
        assert Operation.objects.get(pk=op.id).state == "sending"
        assert observed(op.id).label is Label.UNKNOWN
        assert "unknown outcome" in page(ann, run)
        assert stop(run.task_id, by=ann).open == (op.id,)
        assert observed(op.id).label is Label.UNKNOWN
        op.succeeded("late")
    assert observed(op.id).label is Label.COMPLETED_BEFORE
