"""A new run that a person asks for, and its agent, which only the host can start."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from django.utils.module_loading import import_string

from agentstop import conf
from agentstop.exceptions import AgentStopError
from agentstop.models import Task
from agentstop.runs import Run, begin

logger = logging.getLogger(__name__)


class Runner(Protocol):
    """The type of the function named by AGENTSTOP_RUNNER: starts the agent of this run, or queues a job that does."""

    def __call__(self, run: Run) -> object: ...


class NotStarted(AgentStopError):
    """No agent could be started: either this site does not say how, or a run was begun for it, which has failed."""


def can_start() -> bool:
    """Whether this site has said how agents are started."""
    return bool(conf.RUNNER)


def start(task: Task | int, *, by: Any, run: int | None = None) -> Run:
    """Begin a new run for this person, and have its agent started.

    `run`: the last one that the person saw. Raises what `begin` does, and NotStarted.
    """
    if not can_start():
        raise NotStarted("This site does not say how agents are started: set AGENTSTOP_RUNNER. No run was begun.")
    runner: Runner = import_string(conf.RUNNER)
    begun = begin(task, by=by) if run is None else begin(task, by=by, run=run)
    try:
        runner(begun)
    except Exception as error:
        logger.exception("the agent of a run could not be started", extra={"action": "runner_failed"})
        begun.fail(f"The agent could not be started: {type(error).__name__}: {error}")
        raise NotStarted(f"Run {begun.number} was begun, and its agent could not be started: it has failed.") from error
    return begun
