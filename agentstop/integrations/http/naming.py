"""What a request asks for, in the words of the gate: which effect, under which key, and what identifies it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from agentstop import request as requests
from agentstop.integrations.http.scope import Scope, Ungated

READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
IDENTIFYING = ("method", "url", "query", "body")


def asked(http: Any, scope: Scope, connector: str, header: str) -> requests.Request:
    """The request to the gate; Ungated where nothing names the effect. The body has been read."""
    run = scope.run
    if run is None:
        raise AssertionError("a write within an operation is named by it")
    key = scope.key or unquoted(http.headers.get(header, ""))
    where = f"{http.url.scheme}://{http.url.netloc.decode('ascii', 'replace')}{http.url.path}"
    if not key:
        raise Ungated(
            f"{http.method} {where} has no name. Pass through(run, key=…) or a header {header}: without one a retry "
            "could not be told from a new effect. Nothing was sent."
        )
    args = {"method": http.method, "url": where, "query": _query(http), "body": _body(http)}
    options: requests.Options = {"connector": connector, "key": key}
    if scope.identify is not None:
        options["identify"] = scope.identify
    if scope.deadline is not None:
        options["deadline"] = scope.deadline
    return requests.make(run.task_id, run.number, scope.action or f"{http.method} {http.url.path}", args, options)


def unquoted(value: str) -> str:
    """An idempotency key as it is: bare, or out of the string of a structured field."""
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


def quoted(key: str) -> str:
    """As the string of a structured field."""
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _query(http: Any) -> Mapping[str, Any]:
    return dict(parse_qsl(http.url.query.decode("ascii", "replace"), keep_blank_values=True))


def _body(http: Any) -> Any:
    """What identifies the body: of forms and JSON their values, of anything else only what it is.

    A multipart body has a new boundary each time, and would never be equal.
    """
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    content: bytes = http.content
    if kind == "application/x-www-form-urlencoded":
        return dict(parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True))
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            pass
    return {"type": kind} if kind.startswith("multipart/") else {"type": kind, "bytes": len(content)}
