"""What somebody tries without the right is refused before anything happens, kept and told to the host (R35, R36)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django.fixtures import Settings

from agentstop import answers, bulk, inputs, reconcile
from agentstop.compensate import compensate
from agentstop.exceptions import Denied, TaskNotFound, Unanswered
from agentstop.freeze import freeze, unfreeze
from agentstop.models import Decision, Freeze, Operation, Question, Task
from agentstop.models.facts import Decided
from agentstop.pause import pause, resume
from agentstop.permissions import owner_or_permission
from agentstop.runs import Run, begin
from agentstop.settlement import settle_by_hand
from agentstop.signals import decision_denied
from agentstop.stop import stop
from tests.test_views import browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

Told = list[dict[str, Any]]


@pytest.fixture
def told() -> Iterator[Told]:
    heard: Told = []

    def hear(sender: type, signal: object, **facts: Any) -> None:
        heard.append({**facts, "sender": sender})

    decision_denied.connect(hear)
    yield heard
    decision_denied.disconnect(hear)


@pytest.fixture
def run(ann: User) -> Run:
    found = begin("Report", owner=ann)
    with found.dispatch("write", connector="tools", key="k"):
        pass
    return found


@pytest.fixture
def viewer(ben: User) -> User:
    """Somebody who may see everything, and do nothing."""
    ben.user_permissions.add(Permission.objects.get(codename="view_task"))
    return User.objects.get(pk=ben.pk)


def _operation(run: Run) -> int:
    return Operation.objects.get(task=run.task_id).pk


def _typed(run: Run) -> int:
    return inputs.add(run.task_id, "more").id


def _question(run: Run) -> int:
    with pytest.raises(Unanswered):
        run.ask("Which?", key="q", wait=False)
    return Question.objects.get().pk


def _freeze(run: Run) -> int:
    return freeze(connector="tools", reason="broken").pk


Press = Callable[[Run, User, Any], Any]
PRESSES: dict[str, tuple[Callable[[Run], Any], Press]] = {
    "stop": (lambda run: None, lambda run, by, _: stop(run.task_id, by=by, reason="mine")),
    "pause": (lambda run: None, lambda run, by, _: pause(run.task_id, by=by)),
    "resume": (lambda run: pause(run.task_id), lambda run, by, _: resume(run.task_id, by=by)),
    "start": (lambda run: None, lambda run, by, _: begin(run.task_id, by=by)),
    "compensate": (_operation, lambda run, by, pk: compensate(pk, by=by)),
    "settle": (_operation, lambda run, by, pk: settle_by_hand(pk, by=by, outcome="failed", reason="I looked")),
    "add": (lambda run: None, lambda run, by, _: inputs.add(run.task_id, "more", by=by)),
    "release": (_typed, lambda run, by, pk: inputs.release(pk, by=by)),
    "withdraw": (_typed, lambda run, by, pk: inputs.withdraw(pk, by=by)),
    "look_up": (_operation, lambda run, by, pk: reconcile.look_up_now(pk, by=by)),
    "answer": (_question, lambda run, by, pk: answers.answer(pk, "this", by=by)),
    "decline": (_question, lambda run, by, pk: answers.decline(pk, by=by)),
    "freeze": (lambda run: None, lambda run, by, _: freeze(connector="tools", by=by, reason="mine")),
    "unfreeze": (_freeze, lambda run, by, pk: unfreeze(pk, by=by)),
}
BY_CODE = {"finish", "fail", "cancel", "restore", "erase", "refuse"}  # decided by no person


def test_the_table_names_every_verb() -> None:
    assert {*PRESSES} - {"unfreeze"} == {str(verb) for verb in Decided} - BY_CODE


@pytest.mark.parametrize("verb", PRESSES)
def test_every_denied_attempt_is_kept_and_told(verb: str, run: Run, ben: User, viewer: User, told: Told) -> None:
    prepare, press = PRESSES[verb]
    about = prepare(run)
    task = Task.objects.get(pk=run.task_id)
    if verb == "look_up":  # who sees may do that
        ben.user_permissions.clear()
    with pytest.raises((Denied, TaskNotFound)):
        press(run, User.objects.get(pk=viewer.pk), about)
    frozen = verb in ("freeze", "unfreeze")
    [heard] = told
    assert (heard["verb"], heard["by"], heard["task"]) == (verb, ben, None if frozen else run.task_id)
    assert heard["sender"] is (Freeze if frozen else Decision)
    kept = (Freeze if frozen else Decision).objects.filter(effect="denied")
    assert [row.by for row in kept] == [ben]
    after = Task.objects.get(pk=run.task_id)
    assert (after.state, after.live_run, after.freeze_epoch) == (task.state, task.live_run, task.freeze_epoch)


class TestNewWorkForOthers:
    def test_nobody_begins_work_for_somebody_elses_run(self, run: Run, ann: User, ben: User, told: Told) -> None:
        """R35: as who may not begin a run of it; the attempt is kept at the task that it would have worked for."""
        before = Task.objects.count()
        with pytest.raises(TaskNotFound, match="for you"):
            begin("a child", serves=[run], by=ben)
        assert (Task.objects.count(), [each["verb"] for each in told]) == (before, ["start"])
        assert Decision.objects.filter(task=run.task_id, verb="start", effect="denied", by=ben).count() == 1
        begin("a child", serves=[run], by=ann).check()

    def test_a_task_of_ones_own_is_not_hung_on_somebody_elses_run(self, run: Run, ben: User) -> None:
        own = begin("of ben", owner=ben)
        own.finish()
        with pytest.raises(TaskNotFound, match="for you"):
            begin(own.task_id, serves=[run], by=ben)

    def test_nobody_begins_a_task_in_somebody_elses_name(self, ann: User, ben: User) -> None:
        for by, what in ((ben, "for ann"), (User(username="nobody", is_active=False), "for ann")):
            with pytest.raises(Denied, match=what):
                begin("in her name", owner=ann, by=by)
        assert not Task.objects.exists()
        begin("in his own", owner=ben, by=ben).check()
        ben.user_permissions.add(Permission.objects.get(codename="start_run"))
        begin("for her", owner=ann, by=User.objects.get(pk=ben.pk)).check()


def breaks_for_secrets(user: Any, permission: str, task: Task) -> bool:
    if task.title == "Secret":
        raise LookupError("the host's rule is broken")
    return owner_or_permission(user, permission, task)


def test_a_rule_that_raises_hides_no_other_task_and_holds_back_no_other_stop(
    ann: User, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    secret, plain = begin("Secret", owner=ann), begin("Plain", owner=ann)
    settings.AGENTSTOP_MAY = f"{__name__}.breaks_for_secrets"
    for address in ("/tasks/", "/api/tasks", "/tasks/stop/?mine=1"):
        shown = browser(ann).get(address).content.decode()
        assert ("Plain" in shown, "Secret" in shown) == (True, False), address
    answered = {each.task: each for each in bulk.stop_all(ann, by=ann).answers}
    assert isinstance(answered[secret.task_id].error, LookupError)
    assert answered[plain.task_id].error is None
    assert Task.objects.get(pk=plain.task_id).state == "stopped"
    assert any(getattr(each, "action", "") == "rule_failed" for each in caplog.records)
