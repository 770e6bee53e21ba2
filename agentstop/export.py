"""A task's facts in order, for people and other programs: what was decided, sent, heard and admitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from typing import Any

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


def facts(task: Task, *, bodies: bool = True) -> list[dict[str, Any]]:
    """Every fact of the task in order of time, each with the same columns. `bodies=False` leaves out what is user data.

    `what`: the verb, claim or outcome; `how`: the effect of a decision, the source of a receipt.
    """
    keys = dict(Operation.objects.using(database.alias()).filter(task=task).values_list("pk", "key"))
    rows = [*_decisions(task, bodies), *_attempts(task), *_receipts(task, bodies), *_calls(task)]
    rows += [*_inputs(task, bodies), *_questions(task, bodies)]
    for row in rows:
        row.setdefault("key", keys.get(row["operation"], ""))
    return [_written(row) for row in sorted(rows, key=lambda row: (row["at"], row["fact"], row["id"]))]


def _decisions(task: Task, bodies: bool) -> Iterator[dict[str, Any]]:
    for one in Decision.objects.using(database.alias()).filter(task=task).select_related("by", "question"):
        if not bodies:
            one.detail.pop("answer", None)
        yield {
            **({"key": one.question.key} if one.question is not None else {}),
            "id": one.pk, "at": one.at, "fact": "decision", "operation": one.operation_id, "run": one.run,
            "what": one.verb, "how": one.effect, "by": _who(one), "until": one.until, "count": one.count,
            "cause": one.cause_id, "detail": json.dumps(one.detail) if one.detail else "", "text": one.reason,
        }  # fmt: skip


def _attempts(task: Task) -> Iterator[dict[str, Any]]:
    for one in Attempt.objects.using(database.alias()).filter(operation__task=task):
        yield {
            "id": one.pk, "at": one.passed_at, "fact": "attempt", "operation": one.operation_id, "run": one.run,
            "what": one.verb, "attempt": one.number, "by": one.sender, "until": one.lease_until, "ref": one.ref,
        }  # fmt: skip


def _receipts(task: Task, bodies: bool) -> Iterator[dict[str, Any]]:
    rows = Receipt.objects.using(database.alias()).filter(operation__task=task)
    for one in rows.select_related("by", "attempt"):
        yield {
            "id": one.pk, "at": one.seen_at, "fact": "receipt", "operation": one.operation_id, "what": one.claim,
            "how": one.source, "asked_at": one.asked_at, "ref": one.ref, "text": one.body if bodies else "",
            "attempt": one.attempt.number if one.attempt else None, "authoritative": one.authoritative,
            "provider_at": one.provider_at,
            "by": one.by.get_username() if one.by else "",
        }  # fmt: skip


def _calls(task: Task) -> Iterator[dict[str, Any]]:
    for one in Call.objects.using(database.alias()).filter(operation__task=task):
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


def _questions(task: Task, bodies: bool) -> Iterator[dict[str, Any]]:
    """When each was asked, and when its run took the answer; the answers themselves are decisions."""
    for one in Question.objects.using(database.alias()).filter(task=task):
        named = {"id": one.pk, "fact": "question", "operation": one.operation_id, "key": one.key, "run": one.run}
        text = one.text if bodies else ""
        yield {**named, "at": one.asked_at, "what": "asked", "how": one.kind, "until": one.until, "text": text}
        if one.applied_at is not None:
            yield {**named, "at": one.applied_at, "what": "taken"}


def _who(decision: Decision) -> str:
    return decision.by.get_username() if decision.by else decision.policy


def _written(row: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value.astimezone(UTC).isoformat() if hasattr(value, "astimezone") else value

    return {column: plain(row.get(column)) if row.get(column) is not None else "" for column in COLUMNS}
