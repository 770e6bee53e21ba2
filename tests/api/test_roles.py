"""R35: every verb, by every kind of caller; what came of it is docs/security.md."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django.fixtures import Settings

from agentstop.freeze import freeze
from agentstop.models import Decision, Freeze, Input, InputEvent, Operation, ServingLink, Task
from agentstop.tokens import Scope
from tests.admin.conftest import granted
from tests.api.conftest import SHOP, Answer, Caller, RunAt, Token, begun
from tests.api.table import CALLERS, VERBS, Scene, Verb, told
from tests.api.test_webhooks import PRINTER

pytestmark = pytest.mark.django_db(transaction=True)

AGENT = "api: node agent"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def nobody_starts(run: object) -> None:
    """The site's way to start an agent."""


@pytest.fixture
def people(ann: User, ben: User, olga: User) -> dict[str, User]:
    vera = User.objects.create_user("vera")
    vera.user_permissions.add(Permission.objects.get(codename="view_task"))
    rights = "view_task stop_task pause_task start_run settle_operation compensate_operation freeze_dispatch"
    operator = granted(olga, *rights.split())
    return {"stranger": ben, "viewer": vera, "owner": ann, "operator": operator}


def test_the_table_of_roles_and_verbs(people: dict[str, User], tools: None, token: Token, settings: Settings) -> None:
    settings.AGENTSTOP_CONNECTORS = {"tools": {}, "shop": SHOP, "printer": PRINTER}
    settings.AGENTSTOP_RUNNER = f"{__name__}.nobody_starts"
    callers = {who: Caller(user=person) for who, person in people.items()} | {
        "anonymous": Caller(),
        "other's token": Caller(token(people["stranger"])),
        "agent": Caller(token(people["owner"])),
    }
    narrow = {each: Caller(token(people["owner"], *(scope for scope in Scope if scope != each))) for each in Scope}
    found: dict[tuple[str, str], Answer] = {}
    for verb in VERBS:
        found |= _tried(verb, callers | {"no scope": narrow[Scope(verb.scope)]})
    page = told(found)
    if os.environ.get("SECURITY") == "write":
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "Run this test with SECURITY=write, and look at the difference."


def test_no_address_is_missing_from_the_table(agent: Caller) -> None:
    """Each that the schema publishes has a row."""
    schema = agent.get("/openapi.json").body["paths"]
    published = {(method, _shape(path.removeprefix("/api"))) for path, told in schema.items() for method in told}
    assert {(verb.method, _shape(verb.path.replace("/printer", "/{connector}"))) for verb in VERBS} == published


def _shape(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def _tried(verb: Verb, callers: dict[str, Caller]) -> dict[tuple[str, str], Answer]:
    """Who is refused has changed nothing, and who may not see it learns nothing. Each that is not, on its own scene."""
    answers, scene = {}, _scene(callers["agent"], verb.path + verb.about)
    before = _state(scene)
    for who in CALLERS:
        answer = answers[verb.name, who] = verb.ask(callers[who], scene)
        assert answer.status < 500
        if answer.status >= 400:
            assert _state(scene) == before, (verb.name, who)
        elif verb.method == "post":
            scene = _scene(callers["agent"], verb.path + verb.about)
            before = _state(scene)
    for who in ("stranger", "other's token"):
        if "{" in verb.path and verb.name != "receipt":  # whose pass is looked at first
            none = verb.ask(callers[who], Scene(10**9, 1, 10**9, scene.held, *[10**9] * 5))
            assert (none.status, none.reason) == (answers[verb.name, who].status, answers[verb.name, who].reason)
    return answers


def _scene(agent: Caller, path: str = "") -> Scene:
    run = begun(agent)
    passed = run.gate()
    run.heard(passed, "accepted", ref="m-1")
    asked = agent.post(f"{run.path}/questions", key="first", text="Send it?", kind="approve")
    scene = Scene(run.task, run.run, passed.body["operation"], passed.body["pass"], asked.body["id"])
    more: dict[str, Any] = {name: make(run) for name, make in MORE.items() if f"{{{name}}}" in path}
    return replace(scene, **more)


def _taken(run: RunAt) -> int:
    run.agent.post(f"/tasks/{run.task}/inputs", text="Wait")
    return int(run.agent.post(f"{run.path}/inputs").body["inputs"][0]["id"])


def _done(run: RunAt) -> int:
    passed = run.gate("order:1", action="order", connector="shop")
    run.heard(passed, "succeeded", ref="o-1")
    return int(passed.body["operation"])


def _printed(run: RunAt) -> int:
    passed = run.gate("print:1", connector="printer")
    operation = int(passed.body["operation"])
    run.heard(passed, "accepted", ref=f"job-{operation}")
    return operation


MORE: dict[str, Callable[[RunAt], int]] = {
    "input": _taken,
    "child": lambda run: int(run.agent.post(f"{run.path}/children", title="child").body["task"]),
    "done": _done,
    "printed": _printed,
    "freeze": lambda run: int(freeze(action="nothing", reason="x").pk),
}


def _state(scene: Scene) -> tuple[object, ...]:
    task = Task.objects.values("state", "live_run", "last_run", "stopped_at", "owner").get(pk=scene.task)
    operations = Operation.objects.filter(task=scene.task).values_list("state", "attempts")
    decided = Decision.objects.filter(task=scene.task).exclude(effect="denied").count()
    inputs = InputEvent.objects.filter(input__task=scene.task).count(), Input.objects.filter(task=scene.task).count()
    links, freezes = ServingLink.objects.filter(parent=scene.task).count(), Freeze.objects.exclude(effect="denied")
    return task, list(operations), decided, inputs, links, freezes.count()


def test_what_was_tried_without_the_right_is_written_down(people: dict[str, User], tools: None, token: Token) -> None:
    """R36: also over HTTP, with the application's name."""
    scene = _scene(Caller(token(people["owner"])))
    for who in ("viewer", "stranger"):  # who may not see it learns nothing, and is written down all the same
        person, agent = Caller(user=people[who]), Caller(token(people[who]))
        person.post(f"/tasks/{scene.task}/stop", reason="now")
        agent.post(f"/tasks/{scene.task}/runs/{scene.run}/operations", action="a", connector="tools", key="k")
        agent.post(f"/tasks/{scene.task}/runs/{scene.run}/fail")
        person.post(f"/questions/{scene.question}/answer")
        person.post(f"/questions/{scene.question}/decline", reason="no")
    Caller(user=people["stranger"]).post(f"/operations/{scene.operation}/look-up")
    denied = Decision.objects.filter(task=scene.task, effect="denied").order_by("pk")
    tries = [("stop", "now"), ("start", AGENT), ("fail", AGENT), ("answer", ""), ("decline", "no")]
    expected = [(verb, people[who], reason) for who in ("viewer", "stranger") for verb, reason in tries]
    assert [(each.verb, each.by, each.reason) for each in denied] == [*expected, ("look_up", people["stranger"], "")]


def test_a_right_without_sight_of_the_task_does_nothing(people: dict[str, User], tools: None, token: Token) -> None:
    """What is answered tells of the task: who may not see it is told as little as a stranger."""
    scene = _scene(Caller(token(people["owner"])))
    blind = granted(people["stranger"], "start_run", "answer_question")
    person, agent, before = Caller(user=blind), Caller(token(blind)), _state(scene)
    run = f"/tasks/{scene.task}/runs/{scene.run}"
    tried = [
        agent.post(f"{run}/operations", action="a", connector="tools", key="k"),
        agent.post(f"{run}/fail"),
        person.post(f"/questions/{scene.question}/answer"),
        person.post(f"/questions/{scene.question}/decline", reason="no"),
    ]
    assert [each.status for each in tried] == [404] * 4
    assert _state(scene) == before
