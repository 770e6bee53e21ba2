"""The API put together: its routers, its problems, and the schema that it publishes."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from agentstop import __version__
from agentstop.api import (
    children,
    doors,
    events,
    freezes,
    inputs,
    operations,
    problems,
    questions,
    runs,
    stops,
    tasks,
    webhooks,
)
from agentstop.api.problems import CONTENT_TYPE, Problem
from agentstop.exceptions import AgentStopError


class StopAPI(NinjaAPI):
    """Ninja's API, whose schema says that problems are problem+json."""

    def get_openapi_schema(self, **options: Any) -> Any:
        schema = super().get_openapi_schema(**options)
        for path in schema["paths"].values():
            for method in path.values():
                for status, answer in method["responses"].items():
                    if int(status) >= 400 and "application/json" in answer.get("content", {}):
                        answer["content"] = {CONTENT_TYPE: answer["content"]["application/json"]}
        return schema


api = StopAPI(
    title="agentstop",
    version=__version__,
    description="A Stop button for AI agents that tells the truth: gate, receipts, state and stop over HTTP.",
    urls_namespace="agentstop_api",
    docs_url=None,
    parser=doors.StrictParser(),
)
api.add_router("/tasks", tasks.router)
api.add_router("/tasks", events.router)
api.add_router("/tasks/{task}/runs", runs.router)
api.add_router("/tasks/{task}/runs/{run}/operations", operations.of_runs)
api.add_router("/tasks/{task}/runs/{run}/questions", questions.of_runs)
api.add_router("/tasks/{task}/inputs", inputs.of_tasks)
api.add_router("/tasks/{task}/runs/{run}/inputs", inputs.of_runs)
api.add_router("/tasks/{task}/runs/{run}/children", children.router)
api.add_router("/inputs", inputs.router)
api.add_router("/stops", stops.router)
api.add_router("/freezes", freezes.router)
api.add_router("/operations", operations.router)
api.add_router("/questions", questions.router)
api.add_router("/webhooks", webhooks.router)


@api.exception_handler(Problem)
def _problem(request: HttpRequest, error: Problem) -> HttpResponse:
    return problems.answer(error.reason, error.detail, **error.more)


@api.exception_handler(AgentStopError)
def _refused(request: HttpRequest, error: AgentStopError) -> HttpResponse:
    response = problems.of_error(error)
    if response is None:
        raise error
    return response


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return problems.of_validation(error.errors)


@api.exception_handler(AuthenticationError)
def _unknown(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problems.answer("unauthenticated")


@api.exception_handler(HttpError)
def _unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    return problems.answer("malformed", str(error.__cause__ or ""))


@api.exception_handler(Http404)
def _nowhere(request: HttpRequest, error: Http404) -> HttpResponse:
    return problems.answer("not_found")


def patterns() -> list[URLPattern]:
    """The addresses, each behind its door."""
    found, _, _ = api.urls
    queries = _queries()
    return [_behind(each, queries) for each in found if isinstance(each, URLPattern)]


def _behind(pattern: URLPattern, queries: dict[str, dict[str, frozenset[str]]]) -> URLPattern:
    route = "/" + str(pattern.pattern).replace("<", "{").replace(">", "}")
    view = doors.nowhere if pattern.name == "api-root" else pattern.callback
    pattern.callback = doors.door(view, queries.get(route, {}), of_others=pattern.name == webhooks.OF_OTHERS)
    return pattern


def _queries() -> dict[str, dict[str, frozenset[str]]]:
    """The names that a query may have, by address and method."""
    return {
        path: {
            method.upper(): frozenset(each["name"] for each in told["parameters"] if each["in"] == "query")
            for method, told in methods.items()
        }
        for path, methods in api.get_openapi_schema(path_prefix="")["paths"].items()
    }
