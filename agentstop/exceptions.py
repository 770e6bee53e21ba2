"""Everything that agentstop raises. A message says what is wrong, which object it is about, and what to do."""

from __future__ import annotations

from datetime import datetime

__all__ = [
    "AgentStopError",
    "AlreadyDone",
    "BadToken",
    "ChildStopped",
    "ConnectorNotConfigured",
    "Declined",
    "Denied",
    "Expired",
    "Finished",
    "Frozen",
    "GateInTransaction",
    "InFlight",
    "KeyReused",
    "NoRun",
    "NotOpen",
    "NotSigned",
    "OutcomeUnknown",
    "PassExpired",
    "Paused",
    "Refused",
    "RunNotFound",
    "Stale",
    "Stopped",
    "Superseded",
    "TaskNotFound",
    "ToolFailed",
    "Unanswered",
    "UnsafeDatabase",
]


class AgentStopError(RuntimeError):
    """Base of all errors here. A RuntimeError, because agent frameworks retry plain exceptions and not these."""


class Refused(AgentStopError):
    """The gate did not let an operation leave. `reason` is a word of the vocabulary; `str()` says what to do."""

    reason = "refused"
    operation: int | None = None  # the operation that it is about, where it is listed


class Stopped(Refused):
    """The task was stopped: nothing more is sent for it."""

    reason = "stopped"


class Superseded(Refused):
    """A newer run of the task has begun: this run's operations are no longer sent."""

    reason = "superseded"


class Paused(Refused):
    """The task is paused: ask again after it was resumed."""

    reason = "paused"


class Finished(Refused):
    """The task or run has ended: begin a new run to send more."""

    reason = "finished"


class Frozen(Refused):
    """An operator holds this connector, action, owner or everything: ask again when it is lifted, or after `until`."""

    reason = "frozen"
    until: datetime | None = None  # None: until it is lifted


class OutcomeUnknown(Refused):
    """An earlier attempt may have had its effect, and sending again is not known to be harmless."""

    reason = "outcome_unknown"


class InFlight(Refused):
    """The same operation is being sent, cancelled or undone right now."""

    reason = "in_flight"


class AlreadyDone(Refused):
    """The operation has succeeded before: nothing is sent again, and its result is read with `run.call`."""


class KeyReused(Refused):
    """The key names an operation that was asked for with other identifying arguments, or another question."""

    reason = "key_reused"


class ChildStopped(Refused):
    """A child was stopped by itself: this run does without it, and does not spawn it again under the same key."""

    reason = "child_stopped"
    child: int | None = None  # the task that was stopped


class Declined(Refused):
    """A person has declined what the run asked them: nothing is sent for it. Ask something else, or end."""

    reason = "declined"


class Expired(Refused):
    """Nobody has answered the run's question in time; an answer that comes later is refused."""

    reason = "expired"


class Unanswered(Refused):
    """Nobody has answered the run's question yet: come back later, and ask with the same key."""

    reason = "unanswered"
    question: int | None = None  # the one that waits


class PassExpired(AgentStopError):
    """The gate pass is too old to write on, or the task was stopped since: no byte of this try left."""

    unsent = True  # of the whole attempt; False where an earlier try of it was let through, so that nothing is proven


class Stale(AgentStopError):
    """The run was over before its result could be admitted. Not a refusal: it was sent, and its receipt is kept."""


class NoRun(AgentStopError):
    """A tool or job was called for no run: nothing was sent."""


class ToolFailed(AgentStopError):
    """The run got no usable result of a tool, which itself has raised nothing; its operation tells what is known."""


class Denied(AgentStopError):
    """This user may not do that to this task."""


class NotOpen(AgentStopError):
    """The question takes no answer any more: nothing was changed. `why` is a word, `str()` says it in full.

    `why`: "stopped", "superseded" or "finished" (the run that asked is over), "expired", "answered" or "declined".
    """

    why = ""


class NotSigned(AgentStopError):
    """A webhook has no signature of its provider, or one that is too old: nothing in it was believed."""


class TaskNotFound(AgentStopError):
    """There is no such task for this user."""


class RunNotFound(TaskNotFound):
    """The task has no run of that number: the number was altered, or belongs to another task."""


class BadToken(AgentStopError):
    """The run token was altered, is malformed or names no run of this site."""


class GateInTransaction(AgentStopError):
    """The gate was asked inside an outer transaction, whose rollback would leave something sent without a record."""


class UnsafeDatabase(AgentStopError):
    """The database connection is set up in a way that would let a committed stop be missed or lost."""


class ConnectorNotConfigured(AgentStopError):
    """No connector of that name is configured."""
