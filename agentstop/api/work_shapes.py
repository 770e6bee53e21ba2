"""The shapes of what runs take in and give on: inputs of people, and children."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from ninja.params import functions
from pydantic import Field

from agentstop.api.shapes import Clean, In, Line, Name, Out
from agentstop.inputs import LONGEST
from agentstop.states import RunState


class ChildIn(In):
    """`key`: in this run it names this child, however often it is begun. `detached`: it goes on without the run."""

    title: Name
    key: Line = ""
    detached: bool = False


class InputIn(In):
    """What a person types for the agent."""

    text: Annotated[Clean, Field(min_length=1, max_length=LONGEST, pattern=r"\S")]


class TakeIn(In):
    """How many inputs at most; the oldest first."""

    most: int = Field(default=100, ge=1, le=100)


class TypedOut(Out):
    """An input as it was kept."""

    id: int
    task: int
    text: str
    by: str
    at: datetime


class TakenOut(Out):
    """Inputs that are this run's from now on, the oldest first. Say `done` of each when it was acted on."""

    inputs: list[TypedOut]


class ChildOut(Out):
    """How a child has ended; `state` is null while it has not."""

    child: int
    state: RunState | None


NO_TAKE: Any = functions.Body(TakeIn())
