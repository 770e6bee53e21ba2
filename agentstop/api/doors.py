"""What every address of the API does first and last: read the body within its bounds, and answer problems as such."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.request import UnreadablePostError
from django.views.decorators.cache import never_cache
from ninja.parser import Parser

from agentstop import database
from agentstop.api import problems

DEEPEST = 50  # levels of a body
LARGEST = 5_000_000  # bytes of a body, where Django sets no limit

View = Callable[..., HttpResponse]


class StrictParser(Parser):
    """JSON as the standard has it: no NaN, no endless depth."""

    def parse_body(self, request: HttpRequest) -> Any:
        value = json.loads(request.body, parse_constant=_no_number)
        if not _shallow(value):
            raise ValueError("nested too deep")
        return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _shallow(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [each for one in level for each in _inner(one)]
        if not level:
            return True
    return False


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def door(view: View, queries: Mapping[str, Collection[str]], *, of_others: bool = False) -> View:
    """The view behind it, outside any transaction. `queries`: the names that a query may have, by method.

    `of_others`: what is sent there has a form of its own, with whatever query the address was given.
    """

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        refused = _unreadable(request) or (None if of_others else _not_json(request) or _unknown(request, queries))
        if refused is not None:
            return refused
        response = view(request, *args, **kwargs)
        if isinstance(response, HttpResponseNotAllowed):
            return _not_allowed(response)
        return response

    return transaction.non_atomic_requests(using=database.alias())(never_cache(guarded))


def _unreadable(request: HttpRequest) -> HttpResponse | None:
    largest = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or LARGEST
    try:
        too_large = len(request.body) > largest
    except RequestDataTooBig:
        too_large = True
    except UnreadablePostError:
        return problems.answer("malformed")
    if too_large:
        return problems.answer("too_large", f"At most {largest} bytes are read.")
    return None


def _not_json(request: HttpRequest) -> HttpResponse | None:
    return problems.answer("not_json") if request.body and request.content_type != "application/json" else None


def _unknown(request: HttpRequest, queries: Mapping[str, Collection[str]]) -> HttpResponse | None:
    unknown = sorted(set(request.GET) - set(queries.get(request.method or "", request.GET)))
    return problems.answer("invalid", f"query: there is no {', '.join(unknown)} here.") if unknown else None


def _not_allowed(response: HttpResponseNotAllowed) -> HttpResponse:
    problem = problems.answer("no_such_method")
    problem["Allow"] = response["Allow"]
    return problem


def nowhere(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    """Every other address."""
    return problems.answer("not_found", "The API has no such address.")
