"""Every verb by everybody, on the pages and at the desk: refused before anything happens, and kept (R35, R36).

The same through the functions of the domain is in `reports/test_whom_it_hits.py`, through sockets in
`live/test_doors.py`, through commands in `test_boards.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django.fixtures import Settings

from agentstop import sending
from agentstop.exceptions import Unanswered
from agentstop.freeze import freeze
from agentstop.models import Attempt, Decision, Freeze, Operation, Question, Receipt, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause
from agentstop.runs import Run, begin
from agentstop.testing.sandbox.client import SandboxClient
from tests.admin.conftest import VIEWS, granted
from tests.test_views import text_of

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Quarterly secret"
started: list[Run] = []


def runner(run: Run) -> None:
    started.append(run)


@dataclass(frozen=True, slots=True)
class Scene:
    """A task with something that can be undone, something that can be settled, and a question."""

    run: Run
    done: int
    lost: int
    question: int

    @property
    def task(self) -> int:
        return self.run.task_id


def fails(_: object) -> None:
    raise ConnectionResetError("gone")


@pytest.fixture
def scene(sandbox: SandboxClient, ann: User, settings: Settings) -> Scene:
    settings.AGENTSTOP_RUNNER = f"{__name__}.runner"
    started.clear()
    run = begin(SECRET, owner=ann)
    assert run.call("file.upload", {"label": "file"}, connector="sandbox", key="file").accepted
    run.call("mail.send", connector="tools", key="mail", send=fails)
    with pytest.raises(Unanswered):
        run.ask("May I?", key="may", kind="approve", wait=False)
    done, lost = (Operation.objects.get(key=key).pk for key in ("file", "mail"))
    return Scene(run, done, lost, Question.objects.get().pk)


def everything() -> list[list[tuple[Any, ...]]]:
    models: list[Any] = [Task, RunRow, Operation, Attempt, Receipt, Question]
    rows = [list(model.objects.order_by("pk").values_list()) for model in models]
    made = [list(Decision.objects.exclude(effect="denied").order_by("pk").values_list())]
    return rows + made + [list(Freeze.objects.exclude(effect="denied").order_by("pk").values_list())]


def browser(user: User | None) -> Client:
    client = Client()
    if user is not None:
        client.force_login(user)
    return client


def denied(user: User | None) -> list[str]:
    kept = Decision.objects.filter(effect="denied", by=user).order_by("pk")
    return [str(verb) for verb in kept.values_list("verb", flat=True)]


Press = Callable[[Client, Scene], Any]
PAGES: dict[str, tuple[str, Press]] = {
    "stop": ("stop_task", lambda browser, it: browser.post(f"/tasks/{it.task}/stop/", {"run": it.run.number})),
    "pause": ("pause_task", lambda browser, it: browser.post(f"/tasks/{it.task}/pause/")),
    "resume": ("pause_task", lambda browser, it: browser.post(f"/tasks/{it.task}/resume/")),
    "start": ("start_run", lambda browser, it: browser.post(f"/tasks/{it.task}/new-run/", {"run": it.run.number})),
    "compensate": ("compensate_operation", lambda browser, it: browser.post(f"/operations/{it.done}/undo/")),
    "settle": (
        "settle_operation",
        lambda browser, it: browser.post(f"/operations/{it.lost}/settle/", {"outcome": "failed", "reason": "I looked"}),
    ),
    "answer": (
        "answer_question",
        lambda browser, it: browser.post(f"/tasks/{it.task}/answer/", {"approve": it.question}),
    ),
}
every_verb = pytest.mark.parametrize("verb", PAGES)


def prepare(verb: str, scene: Scene, owner: User) -> None:
    if verb == "resume":
        pause(scene.task, by=owner)


@every_verb
def test_on_the_pages_others_are_refused_before_anything_happens(verb: str, scene: Scene, ann: User, ben: User) -> None:
    """Nobody is asked to log in, a stranger finds nothing, a viewer is told: and the last two are kept."""
    prepare(verb, scene, ann)
    before, (needed, press) = everything(), PAGES[verb]
    answer = press(browser(None), scene)
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/")
    answer = press(browser(ben), scene)
    assert (answer.status_code, SECRET in text_of(answer), denied(ben)) == (404, False, [verb])
    others = {codename for codename, _ in PAGES.values() if codename != needed}
    viewer = granted(ben, "view_task", *others)  # a right to something else is none to this
    assert (press(browser(viewer), scene).status_code, denied(ben)) == (403, [verb, verb])
    assert (everything(), started, denied(None)) == (before, [], [])


@every_verb
@pytest.mark.parametrize("who", ["owner", "operator"])
def test_on_the_pages_those_who_may_are_named(who: str, verb: str, scene: Scene, ann: User, ben: User) -> None:
    prepare(verb, scene, ann)
    needed, press = PAGES[verb]
    user = ann if who == "owner" else granted(ben, "view_task", needed)
    assert press(browser(user), scene).status_code in (200, 302)
    sending.close()
    applied = Decision.objects.filter(verb=verb, effect="applied").latest("pk")
    assert (applied.by, applied.task_id) == (user, scene.task)
    assert Decision.objects.filter(effect="denied").count() == 0


def test_who_sees_a_task_on_the_pages(scene: Scene, ann: User, ben: User) -> None:
    """view_task: a look is no verb, and is not kept."""
    for address in (f"/tasks/{scene.task}/", f"/tasks/{scene.task}/timeline/", f"/operations/{scene.done}/"):
        assert browser(None).get(address).status_code == 302
        answer = browser(ben).get(address)
        assert (answer.status_code, SECRET in text_of(answer)) == (404, False)
        assert SECRET in text_of(browser(ann).get(address))
    viewer = browser(granted(ben, "view_task"))
    assert SECRET in text_of(viewer.get(f"/tasks/{scene.task}/"))
    assert not Decision.objects.filter(effect="denied").exists()


def test_many_at_once_are_asked_for_each(scene: Scene, ann: User, ben: User) -> None:
    """A stranger learns of none, and each of their attempts is kept; so is a viewer's."""
    second, own, before = begin("second", owner=ann), begin("own", owner=ben), everything()
    form = {"tasks": f"{scene.task}:1 {second.task_id}:1 999999:1", "reason": "all of it"}
    answer = browser(ben).post("/tasks/stop/", form)
    assert (SECRET in text_of(answer), denied(ben)) == (False, ["stop", "stop"])
    assert text_of(answer).count("There is no task") == 3
    viewer = browser(granted(ben, "view_task"))
    assert SECRET in text_of(viewer.post("/tasks/stop/", form))
    assert (everything(), denied(ben)) == (before, ["stop"] * 4)
    viewer.post("/tasks/stop/", {"tasks": f"{own.task_id}:1 {scene.task}:1"})
    states = Task.objects.in_bulk([own.task_id, scene.task])
    assert [states[own.task_id].state, states[scene.task].state] == ["stopped", "active"]


@pytest.mark.parametrize("verb", ["look_up", "start"])
def test_where_nothing_could_be_done_it_is_refused_and_kept_all_the_same(
    verb: str, scene: Scene, ben: User, settings: Settings
) -> None:
    """A provider is not asked for a stranger; and a site that starts no agents refuses before it says so."""
    settings.AGENTSTOP_RUNNER = ""
    place, data = {"look_up": ("look-up", {"operation": scene.done}), "start": ("new-run", {"run": 1})}[verb]
    before = everything()
    for sent in (data, {**data, "operation": 999_999}):
        assert browser(ben).post(f"/tasks/{scene.task}/{place}/", sent).status_code == 404
    assert (everything(), denied(ben)) == (before, [verb, verb])


def desk(name: str) -> Press:
    return lambda browser, it: browser.post(reverse(f"admin:agentstop_task_{name}", args=[it.task]) + "?run=1")


def desk_stop(browser: Client, it: Scene) -> Any:
    return browser.post(reverse("admin:agentstop_task_stop"), {"tasks": f"{it.task}:1", "reason": "desk"})


DESK: dict[str, tuple[str, Press]] = {
    "stop": ("stop_task", desk_stop),
    "pause": ("pause_task", desk("pause")),
    "resume": ("pause_task", desk("resume")),
    "start": ("start_run", desk("new_run")),
}


@pytest.fixture
def staff(ben: User) -> User:
    ben.is_staff = True
    ben.save()
    return ben


@pytest.mark.parametrize("verb", DESK)
def test_at_the_desk_each_verb_needs_its_right(verb: str, scene: Scene, ann: User, staff: User) -> None:
    """The owner's place is the page: the desk sends whoever is not staff to its login, with nothing done."""
    prepare(verb, scene, ann)
    before, (needed, press) = everything(), DESK[verb]
    for user in (None, ann):
        assert "/login/" in press(browser(user), scene)["Location"]
    answer = press(browser(staff), scene)
    assert (SECRET in text_of(answer), denied(staff)) == (False, [verb])
    others = {codename for codename, _ in DESK.values() if codename != needed}
    viewer = browser(granted(staff, *VIEWS, *others))
    press(viewer, scene)
    assert (everything(), started, denied(staff)) == (before, [], [verb, verb])
    press(browser(granted(staff, *VIEWS, needed)), scene)
    applied = Decision.objects.filter(verb=verb, effect="applied").latest("pk")
    assert (applied.by, denied(staff)) == (staff, [verb, verb])


def test_at_the_desk_only_who_may_hold_dispatch_does(scene: Scene, ann: User, staff: User) -> None:
    """R45: freezing and lifting; what was denied is kept among the freezes, since it is about no single task."""
    held = freeze(connector="tools", reason="because")
    add, lift = reverse("admin:agentstop_freeze_add"), reverse("admin:agentstop_freeze_lift", args=[held.pk])
    form = {"reason": "enough", "confirmed": "1"}
    before = everything()
    for user in (None, ann):
        assert all("/login/" in browser(user).post(address, form)["Location"] for address in (add, lift))
    for user in (staff, granted(staff, *VIEWS, "stop_task", "pause_task")):
        assert [browser(user).post(address, form).status_code for address in (add, lift)] == [403, 403]
    assert everything() == before
    kept = Freeze.objects.filter(effect="denied", by=staff).order_by("pk")
    assert list(kept.values_list("lifts", flat=True)) == [None, held.pk] * 2
    user = granted(staff, *VIEWS, "freeze_dispatch")
    assert [browser(user).post(address, form).status_code for address in (add, lift)] == [302, 302]
    assert Freeze.objects.exclude(effect="denied").filter(by=staff).count() == 2


STOPS: dict[str, Press] = {
    "on its page": PAGES["stop"][1],
    "with many": lambda browser, it: browser.post("/tasks/stop/", {"tasks": f"{it.task}:1", "reason": "too dear"}),
    "at the desk": desk_stop,
}


@pytest.mark.parametrize("press", STOPS.values(), ids=list(STOPS))
def test_an_operator_who_stops_is_named_to_the_owner_wherever_it_was_pressed(
    press: Press, scene: Scene, ann: User, staff: User
) -> None:
    press(browser(granted(staff, *VIEWS, "stop_task")), scene)
    shown = text_of(browser(ann).get(f"/tasks/{scene.task}/"))
    assert "Stopped by <bdi>ben</bdi>" in shown
    assert Task.objects.get(pk=scene.task).stopped_by == staff
