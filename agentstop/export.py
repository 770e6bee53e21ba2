"""A task's facts in order, for people and other programs: what was decided, sent, heard and admitted."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from itertools import chain
from typing import Any

from django.db import models

from agentstop import database
from agentstop.models import Attempt, Call, Decision, Input, InputEvent, Operation, Question, Receipt, Task

COLUMNS = (
    "at",
    "fact",
    "operation",
    "key",
    "run",
    "attempt",
    "what",
    "how",
    "by",
    "asked_at",
    "until",
    "count",
    "ref",
    "authoritative",
    "provider_at",
    "cause",
    "detail",
    "text",
)

LEFT_OUT = {"body", "event", "fingerprint"}  # of a table: what is long, and what is nobody's to know

AT_ONCE = ("input", "question", "decision", "attempt", "receipt", "call")  # the order of what has the same time


def facts(task: Task, *, bodies: bool = True, operation: int | None = None) -> list[dict[str, Any]]:
    """Every fact of the task in order of time, each with the same columns. `bodies=False` leaves out what is user data.

    `what`: the verb, claim or outcome; `how`: the effect of a decision, the source of a receipt. `operation`: only the
    facts about this one.
    """
    rows = _facts(task, bodies, operation)
    return [_written(row) for row in sorted(rows, key=lambda row: (row["at"], AT_ONCE.index(row["fact"]), row["id"]))]


def _facts(task: Task, bodies: bool, operation: int | None) -> list[dict[str, Any]]:
    operations = Operation.objects.using(database.alias()).filter(task=task)
    if operation is not None:
        operations = operations.filter(pk=operation)
    about: dict[str, Any] = {} if operation is None else {"operation": operation}
    rows = [*_decisions(task, bodies, about), *_attempts(task, about), *_receipts(task, bodies, about)]
    rows += [*_calls(task, about), *_questions(task, bodies, about)]
    if operation is None:
        rows += _inputs(task, bodies)
    keys = dict(operations.values_list("pk", "key"))
    for row in rows:
        row.setdefault("key", keys.get(row["operation"], ""))
    return rows


def lines(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """The lines of a CSV file, the names of the columns first."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in chain([columns], rows):
        writer.writerow([_safe(value) for value in row])
        yield written.getvalue()
        written.seek(0)
        written.truncate()


def table(model: type[models.Model], rows: Iterable[models.Model]) -> Iterator[str]:
    """Rows of a model as lines of a CSV file, without the texts of results and the fingerprints of tokens."""
    names = [field.attname for field in model._meta.concrete_fields if field.attname not in LEFT_OUT]
    return lines(names, ([_plain(getattr(row, name)) for name in names] for row in rows))


def _safe(value: Any) -> Any:
    """Spreadsheets run what begins with these signs as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value.astimezone(UTC).isoformat() if hasattr(value, "astimezone") else value


def _decisions(task: Task, bodies: bool, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    rows = Decision.objects.using(database.alias()).filter(task=task, **about)
    for one in rows.select_related("by", "question"):
        if not bodies:
            one.detail.pop("answer", None)
        yield {
            **({"key": one.question.key} if one.question is not None else {}),
            "id": one.pk, "at": one.at, "fact": "decision", "operation": one.operation_id, "run": one.run,
            "what": one.verb, "how": one.effect, "by": _who(one), "until": one.until, "count": one.count,
            "cause": one.cause_id, "detail": json.dumps(one.detail) if one.detail else "", "text": one.reason,
        }  # fmt: skip


def _attempts(task: Task, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in Attempt.objects.using(database.alias()).filter(operation__task=task, **about):
        yield {
            "id": one.pk, "at": one.passed_at, "fact": "attempt", "operation": one.operation_id, "run": one.run,
            "what": one.verb, "attempt": one.number, "by": one.sender, "until": one.lease_until, "ref": one.ref,
        }  # fmt: skip


def _receipts(task: Task, bodies: bool, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    rows = Receipt.objects.using(database.alias()).filter(operation__task=task, **about)
    for one in rows.select_related("by", "attempt"):
        yield {
            "id": one.pk, "at": one.seen_at, "fact": "receipt", "operation": one.operation_id, "what": one.claim,
            "how": one.source, "asked_at": one.asked_at, "ref": one.ref, "text": one.body if bodies else "",
            "attempt": one.attempt.number if one.attempt else None, "authoritative": one.authoritative,
            "provider_at": one.provider_at,
            "by": one.by.get_username() if one.by else "",
        }  # fmt: skip


def _calls(task: Task, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in Call.objects.using(database.alias()).filter(operation__task=task, **about):
        yield {
            "id": one.pk, "at": one.at, "fact": "call", "operation": one.operation_id, "run": one.run,
            "what": one.outcome, "text": one.error,
        }  # fmt: skip


def _inputs(task: Task, bodies: bool) -> Iterator[dict[str, Any]]:
    """What people typed, and what became of it: `ref` is the input's id in both."""
    for one in Input.objects.using(database.alias()).filter(task=task).select_related("by"):
        yield {
            "id": one.pk, "at": one.at, "fact": "input", "operation": None, "what": "added", "ref": one.pk,
            "by": one.by.get_username() if one.by else "", "text": one.body if bodies else "",
        }  # fmt: skip
    for event in InputEvent.objects.using(database.alias()).filter(input__task=task).select_related("by"):
        yield {
            "id": event.pk, "at": event.at, "fact": "input", "operation": None, "what": event.became,
            "ref": event.input_id, "run": event.run, "cause": event.decision_id,
            "by": event.by.get_username() if event.by else "",
        }  # fmt: skip


def _questions(task: Task, bodies: bool, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """When each was asked, and when its run took the answer; the answers themselves are decisions."""
    for one in Question.objects.using(database.alias()).filter(task=task, **about):
        named = {"id": one.pk, "fact": "question", "operation": one.operation_id, "key": one.key, "run": one.run}
        text = one.text if bodies else ""
        yield {**named, "at": one.asked_at, "what": "asked", "how": one.kind, "until": one.until, "text": text}
        if one.applied_at is not None:
            yield {**named, "at": one.applied_at, "what": "taken"}


def _who(decision: Decision) -> str:
    return decision.by.get_username() if decision.by else decision.policy


def _written(row: dict[str, Any]) -> dict[str, Any]:
    return {column: _plain(row.get(column)) for column in COLUMNS}
