"""Errors as problem+json (RFC 9457): what is wrong in a word and in a sentence, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.utils.translation import gettext
from ninja import Schema
from pydantic import ConfigDict

from agentstop.exceptions import (
    AgentStopError,
    BadToken,
    ConnectorNotConfigured,
    Denied,
    Frozen,
    NotOpen,
    NotSigned,
    Refused,
    TaskNotFound,
)
from agentstop.freeze import NoSuchFreeze
from agentstop.settlement import NotSettled, SentAgain
from agentstop.starting import NotStarted
from agentstop.webhooks import NotOurs, NoWebhooks
from agentstop.words.problem_words import PROBLEMS

CONTENT_TYPE = "application/problem+json"
LONGEST = 2_000  # characters of a detail

REASONS: Sequence[tuple[type[AgentStopError], str]] = (
    (TaskNotFound, "not_found"),
    (Denied, "denied"),
    (BadToken, "bad_pass"),
    (NotOpen, "not_open"),
    (SentAgain, "sent_again"),
    (NotSettled, "not_settled"),
    (NoSuchFreeze, "not_found"),
    (NotSigned, "not_signed"),
    (NoWebhooks, "not_found"),
    (NotOurs, "not_ours"),
    (NotStarted, "not_started"),
    (ConnectorNotConfigured, "invalid"),
)


class Wrong(Schema):
    """One part of a request that is not usable."""

    model_config = ConfigDict(extra="forbid")

    where: str
    what: str


class ProblemOut(Schema):
    """What was refused, why, and what to do. `reason` is a word to decide by; the sentences are for people."""

    model_config = ConfigDict(extra="forbid")

    type: str
    status: int
    reason: str
    title: str
    detail: str
    todo: str
    operation: int | None = None
    until: datetime | None = None
    wrong: list[Wrong] = []


class Problem(Exception):
    """Raised by an endpoint to answer with the problem of that reason."""

    def __init__(self, reason: str, detail: str = "", **more: Any) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.more = reason, detail, more


def answer(reason: str, detail: str = "", **more: Any) -> HttpResponse:
    """The response; `more`: the other fields of ProblemOut."""
    words = PROBLEMS[reason]
    title = gettext(words.title)
    out = ProblemOut(
        type=f"urn:agentstop:problem:{reason}",
        status=words.status,
        reason=reason,
        title=title,
        detail=(detail or title)[:LONGEST],
        todo=gettext(words.todo),
        **more,
    )
    response = JsonResponse(out.model_dump(mode="json"), status=words.status, content_type=CONTENT_TYPE)
    if words.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if words.status == 429:
        response["Retry-After"] = "60"
    return response


def of_error(error: AgentStopError) -> HttpResponse | None:
    """The response for an error of the domain; None where it is a fault of this site."""
    if isinstance(error, Refused):
        reason = error.reason if error.reason in PROBLEMS else "refused"
        until = error.until if isinstance(error, Frozen) else None
        return answer(reason, str(error), operation=error.operation, until=until)
    return next((answer(reason, str(error)) for kind, reason in REASONS if isinstance(error, kind)), None)


def reason_of(error: AgentStopError) -> str:
    """The word for an error of the domain; "failed" where it is a fault of this site."""
    if isinstance(error, Refused):
        return error.reason
    return next((reason for kind, reason in REASONS if isinstance(error, kind)), "failed")


def of_validation(errors: Sequence[dict[str, Any]]) -> HttpResponse:
    """The response for a request that does not fit its schema."""
    wrong = [Wrong(where=".".join(map(str, each["loc"]))[:200], what=str(each["msg"])[:500]) for each in errors[:20]]
    return answer("invalid", "; ".join(f"{each.where}: {each.what}" for each in wrong), wrong=wrong)
