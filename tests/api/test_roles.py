"""R35: every verb, by every kind of caller; what came of it is docs/security.md."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django.fixtures import Settings

from agentstop.models import Decision, Operation, Task
from agentstop.tokens import Scope
from tests.admin.conftest import granted
from tests.api.conftest import Answer, Caller, Token, begun
from tests.api.table import CALLERS, VERBS, Scene, Verb, told

pytestmark = pytest.mark.django_db(transaction=True)

AGENT = "api: node agent"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def nobody_starts(run: object) -> None:
    """The site's way to start an agent."""


@pytest.fixture
def people(ann: User, ben: User, olga: User) -> dict[str, User]:
    vera = User.objects.create_user("vera")
    vera.user_permissions.add(Permission.objects.get(codename="view_task"))
    return {"stranger": ben, "viewer": vera, "owner": ann, "operator": olga}


def test_the_table_of_roles_and_verbs(people: dict[str, User], tools: None, token: Token, settings: Settings) -> None:
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


def _tried(verb: Verb, callers: dict[str, Caller]) -> dict[tuple[str, str], Answer]:
    """Who is refused has changed nothing, and who may not see it learns nothing. Each that is not, on its own scene."""
    answers, scene = {}, _scene(callers["agent"])
    before = _state(scene)
    for who in CALLERS:
        answer = answers[verb.name, who] = verb.ask(callers[who], scene)
        assert answer.status < 500
        if answer.status >= 400:
            assert _state(scene) == before, (verb.name, who)
        elif verb.method == "post":
            scene = _scene(callers["agent"])
            before = _state(scene)
    for who in ("stranger", "other's token"):
        if "{" in verb.path and verb.name != "receipt":  # whose pass is looked at first
            none = verb.ask(callers[who], Scene(10**9, 1, 10**9, scene.held, 10**9))
            assert (none.status, none.reason) == (answers[verb.name, who].status, answers[verb.name, who].reason)
    return answers


def _scene(agent: Caller) -> Scene:
    run = begun(agent)
    passed = run.gate()
    asked = agent.post(f"{run.path}/questions", key="first", text="Send it?", kind="approve")
    return Scene(run.task, run.run, passed.body["operation"], passed.body["pass"], asked.body["id"])


def _state(scene: Scene) -> tuple[object, ...]:
    task = Task.objects.values("state", "live_run", "last_run", "stopped_at", "owner").get(pk=scene.task)
    operations = Operation.objects.filter(task=scene.task).values_list("state", "attempts")
    return task, list(operations), Decision.objects.filter(task=scene.task).exclude(effect="denied").count()


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
