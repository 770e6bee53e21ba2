"""R35: every verb, by every kind of caller; what came of it is docs/security.md."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from pytest_django.fixtures import Settings

from agentstop.models import Decision
from agentstop.tokens import Scope
from tests.api.conftest import Answer, Caller, Token, begun
from tests.api.table import CALLERS, VERBS, Scene, Verb, told

pytestmark = pytest.mark.django_db(transaction=True)

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
    agent = Caller(token(people["owner"]))
    found = {(verb.name, who): _tried(verb, who, agent, people, token) for verb in VERBS for who in CALLERS}
    page = told(found)
    if os.environ.get("SECURITY") == "write":
        PAGE.write_text(page)
    assert page == PAGE.read_text(), "Run this test with SECURITY=write, and look at the difference."


def _tried(verb: Verb, who: str, agent: Caller, people: dict[str, User], token: Token) -> Answer:
    """On a scene of its own. Who is refused has changed nothing; who may not see it learns nothing."""
    run = begun(agent)
    passed = run.gate()
    scene = Scene(run.task, run.run, passed.body["operation"], passed.body["pass"])
    before = _state(agent, scene)
    answer = verb.ask(_caller(verb, who, people, token), scene)
    assert answer.status < 500
    if answer.status >= 400:
        assert _state(agent, scene) == before, (verb.name, who)
    if who in ("stranger", "other's token") and "{" in verb.path:
        nothing = Scene(10**9, 1, 10**9, passed.body["pass"])
        none = verb.ask(_caller(verb, who, people, token), nothing)
        if verb.name != "receipt":  # its pass is looked at first
            assert (none.status, none.reason) == (answer.status, answer.reason), (verb.name, who)
    return answer


def _state(agent: Caller, scene: Scene) -> tuple[object, ...]:
    told = agent.get(f"/tasks/{scene.task}").body
    states = [operation["state"] for operation in told["operations"]]
    return told["task"], states, Decision.objects.filter(task=scene.task).exclude(effect="denied").count()


def _caller(verb: Verb, who: str, people: dict[str, User], token: Token) -> Caller:
    if who == "anonymous":
        return Caller()
    if who == "no scope":
        return Caller(token(people["owner"], *(scope for scope in Scope if scope != verb.scope)))
    if who == "other's token":
        return Caller(token(people["stranger"]))
    return Caller(token(people["owner"])) if who == "agent" else Caller(user=people[who])


def test_what_was_tried_without_the_right_is_written_down(people: dict[str, User], tools: None, token: Token) -> None:
    """R36: also over HTTP, with the application's name."""
    run = begun(Caller(token(people["owner"])))
    Caller(user=people["viewer"]).post(f"/tasks/{run.task}/stop", reason="now")
    Caller(token(people["viewer"])).post(f"{run.path}/operations", action="a", connector="tools", key="k")
    denied = Decision.objects.filter(task=run.task, effect="denied").order_by("pk")
    assert [(each.verb, each.by, each.reason) for each in denied] == [
        ("stop", people["viewer"], "now"), ("start", people["viewer"], "api: node agent"),
    ]  # fmt: skip
