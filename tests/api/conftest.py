"""An application with a token, people with a session, and what they ask over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from agentstop import tokens
from agentstop.api.guesses import guesses
from agentstop.models import ServiceToken
from agentstop.providers.base import Answer as ProvidersAnswer
from agentstop.providers.base import Capability, Compensation, Context, Provider, Submission
from agentstop.states import Claim

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Answer:
    """What was answered; of a problem it is checked that it is a whole one."""

    status: int
    body: Any
    headers: Any

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))


class Caller:
    """Asks as one application or person."""

    def __init__(self, token: str = "", user: User | None = None, *, csrf: bool = False) -> None:
        self.client = Client(enforce_csrf_checks=csrf)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user is not None:
            self.client.force_login(user)

    def get(self, path: str, **query: Any) -> Answer:
        return self._told(self.client.get(f"/api{path}", query, headers=self.headers))

    def post(self, path: str, **body: Any) -> Answer:
        return self.send("post", path, json.dumps(body) if body else "")

    def send(
        self, method: str, path: str, body: str | bytes, content_type: str = "application/json", **more: str
    ) -> Answer:
        """`more`: headers beside its own."""
        ask = getattr(self.client, method)
        return self._told(ask(f"/api{path}", body, content_type=content_type, headers=self.headers | more))

    def _told(self, response: Any) -> Answer:
        if response.status_code >= 400:
            assert response["Content-Type"] == PROBLEM, response.content[:300]
            told = response.json()
            assert told["status"] == response.status_code and told["detail"] and told["todo"]
        return Answer(response.status_code, response.json(), response.headers)


Token = Callable[..., str]


@pytest.fixture(autouse=True)
def no_guesses() -> None:
    """What tests before have guessed is forgotten."""
    guesses.forget()


@pytest.fixture
def root(transactional_db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def token(root: User) -> Token:
    """Makes tokens: with every scope and connector where nothing else is said."""

    def make(user: User, *scopes: str, connectors: tuple[str, ...] = ("*",)) -> str:
        _, text = tokens.make("node agent", user, scopes or list(tokens.Scope), by=root, connectors=connectors)
        return text

    return make


@pytest.fixture
def agent(tools: None, ann: User, token: Token, settings: Settings) -> Caller:
    """An application that acts for ann."""
    return Caller(token(ann))


class Shop(Provider):
    """Orders can be undone, which it does at once."""

    def capability(self, action: str) -> Capability:
        back = Compensation("give back", consequences="The money comes back in a week; the parcel stays.")
        return Capability(compensation=back if action == "order" else None)

    async def submit(self, submission: Submission, context: Context) -> ProvidersAnswer:
        context.before_write()
        return ProvidersAnswer(Claim.SUCCEEDED, ref=f"back-{submission.args['original_ref']}")


SHOP = {"PROVIDER": f"{__name__}.Shop"}


@dataclass(frozen=True)
class RunAt:
    """A run that was begun over HTTP."""

    agent: Caller
    task: int
    run: int

    @property
    def path(self) -> str:
        return f"/tasks/{self.task}/runs/{self.run}"

    def gate(self, key: str = "mail:1", **more: Any) -> Answer:
        wish = {"action": "mail.send", "connector": "tools", "args": {"to": "ben"}, "key": key, **more}
        return self.agent.post(f"{self.path}/operations", **wish)

    def heard(self, passed: Answer, claim: str, **more: Any) -> Answer:
        operation, held = passed.body["operation"], passed.body["pass"]
        return self.agent.post(f"/operations/{operation}/receipts", **{"pass": held, "claim": claim, **more})


def begun(agent: Caller, title: str = "Send the report") -> RunAt:
    task = agent.post("/tasks", title=title).body["id"]
    return RunAt(agent, task, agent.post(f"/tasks/{task}/runs").body["run"])


@pytest.fixture
def run(agent: Caller) -> RunAt:
    return begun(agent)


def row(token: str) -> ServiceToken:
    return ServiceToken.objects.get(name=token.split("_")[1])
