"""Every address, by its published schema: no 500, and no answer that the schema does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as limits
from hypothesis import strategies as st
from pytest_django.fixtures import Settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agentstop.api import problems
from agentstop.api.problems import Problem
from agentstop.freeze import freeze
from agentstop.providers.base import Answer, Provider, Pushed, Webhook
from agentstop.states import Claim
from tests.api.conftest import Caller, RunAt, begun

pytestmark = pytest.mark.django_db(transaction=True)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 4  # of each address and method, by the schema and against it


REF = "job-7"


class Open(Provider):
    """Takes whatever is sent, so that made-up bodies come further than to a signature: by their length they say
    something that a push may or may not say, of an operation that is there or not.
    """

    def webhook(self, webhook: Webhook) -> Sequence[Pushed]:
        claim = list(Claim)[len(webhook.body) % len(Claim)]
        text = webhook.body.decode("utf-8", "replace")
        return [Pushed(Answer(claim, ref=REF if len(text) % 3 else text, body=text, result=text))]


def schema() -> Any:
    return schemathesis.openapi.from_wsgi("/api/openapi.json", WSGIHandler())


def test_no_answer_is_outside_the_schema(agent: Caller, ann: User) -> None:
    """R46: sent by an application that may everything, about things that are there, half of it deliberately wrong."""
    run = begun(agent)
    passed = run.gate()
    asked = agent.post(f"{run.path}/questions", key="q", text="Now?").body["id"]
    known = {"task": run.task, "run": run.run, "operation": passed.body["operation"], "question": asked}
    known["connector"] = "tools"
    known["input"] = agent.post(f"/tasks/{run.task}/inputs", text="Wait").body["id"]
    known["child"] = agent.post(f"{run.path}/children", title="child").body["task"]
    known["freeze"] = freeze(action="nothing", reason="x").pk
    tried = 0
    for result in schema().get_all_operations():
        operation = result.ok()
        _fuzz(operation, known, run)
        tried += 1
    assert tried == len(_addresses(agent))


def test_no_answer_to_a_webhook_is_outside_the_schema(agent: Caller, settings: Settings) -> None:
    """R46: with a connector that takes it; kept, unreadable and about nothing known are all among the answers."""
    settings.AGENTSTOP_CONNECTORS = {"printer": {"PROVIDER": f"{__name__}.Open"}}
    run = begun(agent)
    run.heard(run.gate(connector="printer"), "accepted", ref=REF)
    [webhook] = [each.ok() for each in schema().get_all_operations() if each.ok().path.endswith("/{connector}")]
    told = _fuzz(webhook, {"connector": "printer"}, run, examples=15)
    assert {200, 404, 422} <= set(told) and max(told) < 500, told


def test_a_fault_would_be_found(agent: Caller) -> None:
    """An answer that the schema does not know, and one that is none at all."""
    run = begun(agent)
    found = {each.ok().definition.raw["operationId"]: each.ok() for each in schema().get_all_operations()}
    for broken in (RuntimeError("a fault"), Problem("not_found", wrong=[])):
        with (
            mock.patch("agentstop.api.tasks.visible", side_effect=broken),
            mock.patch.object(problems, "CONTENT_TYPE", "x/y"),
            pytest.raises(BaseExceptionGroup),
        ):
            _fuzz(found["state"], {"task": run.task}, run)


def _addresses(agent: Caller) -> list[str]:
    told = agent.get("/openapi.json").body["paths"]
    return [f"{method} {path}" for path, methods in told.items() for method in methods]


def _fuzz(operation: Any, known: dict[str, Any], run: RunAt, examples: int = EXAMPLES) -> Counter[int]:
    """How often it was answered with each status."""
    told: Counter[int] = Counter()
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    for mode in modes:

        @seed(1)
        @limits(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
        def tried(case: Any, real: bool) -> None:
            if real:
                case.path_parameters = {name: known[name] for name in case.path_parameters or {}}
            if case.query:
                case.query.pop("wait", None)
            told[case.call_and_validate(headers=run.agent.headers, checks=CHECKS).status_code] += 1

        tried()
    return told
