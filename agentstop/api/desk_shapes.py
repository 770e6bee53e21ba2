"""The shapes of what operators and people do besides stopping one task: many stops, settling, undoing, freezing."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from agentstop.api.shapes import HIGHEST, In, Line, Out, ReasonIn, StopOut, TaskId, Text

Why = Annotated[Text, Field(min_length=1, pattern=r"\S")]


class StopManyIn(ReasonIn):
    """Which tasks: all of you that are at work (`mine`), those about a `subject` (`app.model:pk`), or these `tasks`."""

    mine: bool = False
    subject: Line = ""
    tasks: list[TaskId] = Field(default=[], max_length=500)


class SettleIn(In):
    """`reason`: on what evidence. `attempts`: how often it had been sent when it was looked at."""

    outcome: Literal["succeeded", "failed", "cancelled"]
    reason: Why
    attempts: int | None = Field(default=None, ge=0, le=HIGHEST)


class FreezeIn(In):
    """What is held: a connector, an action, the tasks of an owner (a user name); what is left out: of any.

    `until`: ISO time with an offset; without it until it is lifted.
    """

    connector: Line = ""
    action: Line = ""
    owner: Line = ""
    reason: Why
    until: Annotated[AwareDatetime | None, Field(strict=False)] = None


class UndoingOut(Out):
    """The operation that undoes the other one: it was sent, and is read like any other."""

    operation: int
    undoes: int


class FreezeOut(Out):
    """What an operator holds. `in_force_at` is null while tasks are still being reached."""

    id: int
    connector: str
    action: str
    owner: str
    of_owner: bool
    by: str
    reason: str
    at: datetime
    until: datetime | None
    in_force_at: datetime | None


class FreezesOut(Out):
    freezes: list[FreezeOut]


class NotStoppedOut(Out):
    task: int
    reason: str
    detail: str


class StopsOut(Out):
    """What each of the tasks answered: none hides what became of the others."""

    stops: list[StopOut]
    failed: list[NotStoppedOut]
