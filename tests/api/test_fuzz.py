"""Every address, by its published schema: no 500, and no answer that the schema does not know."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agentstop.api import problems
from agentstop.api.problems import Problem
from agentstop.freeze import freeze
from tests.api.conftest import Caller, RunAt, begun

pytestmark = pytest.mark.django_db(transaction=True)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 4  # of each address and method, by the schema and against it


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


def _fuzz(operation: Any, known: dict[str, int], run: RunAt) -> None:
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    for mode in modes:

        @seed(1)
        @settings(
            max_examples=EXAMPLES,
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
            case.call_and_validate(headers=run.agent.headers, checks=CHECKS)

        tried()
