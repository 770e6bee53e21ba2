"""The shapes of what is sent and answered. Unknown fields and wrong types are refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import P, PathEx
from ninja.params import functions
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agentstop import bodies
from agentstop.api.waits import Wait
from agentstop.folds.input_states import InputState
from agentstop.folds.question_states import QuestionState
from agentstop.models.facts import CallOutcome
from agentstop.questions import APPROVED, LONGEST_WAIT
from agentstop.request import LONGEST
from agentstop.states import OperationState, TaskState

BIGGEST = 2**63 - 1
HIGHEST = 2**31 - 1  # of a run's number


def _clean(text: str) -> str:
    if bodies.safe(text) != text:
        raise ValueError("it contains a NUL or broken character")
    return text


Id = PathEx[int, P(ge=1, le=BIGGEST)]
Number = PathEx[int, P(ge=1, le=HIGHEST)]
Clean = Annotated[str, AfterValidator(_clean)]
Line = Annotated[Clean, Field(max_length=255)]
Name = Annotated[Clean, Field(min_length=1, max_length=255, pattern=r"\S")]
Text = Annotated[Clean, Field(max_length=bodies.LONGEST_REASON)]
Seconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]

Over = Literal["stopped", "superseded", "finished"]


TaskId = Annotated[int, Field(ge=1, le=BIGGEST)]


class In(BaseModel):
    """What is sent."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Out(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class FindIn(BaseModel):
    """Which tasks: of a `subject` (`app.model:pk`), in a state, older than the id `before`."""

    model_config = ConfigDict(extra="forbid")

    subject: Line = ""
    state: TaskState | None = None
    before: int | None = Field(default=None, ge=1, le=BIGGEST)
    limit: int = Field(default=50, ge=1, le=100)


class CreateIn(In):
    """`owner`: a user name; without it the token's user."""

    title: Name
    subject: Line = ""
    owner: Line = ""


class ReasonIn(In):
    reason: Text = ""


class StopIn(ReasonIn):
    """`run`: the last one that was seen; a newer one is left alone."""

    run: int | None = Field(default=None, ge=0, le=HIGHEST)


NO_REASON: Any = functions.Body(ReasonIn())
NO_STOP: Any = functions.Body(StopIn())


class BeginIn(In):
    """`run`: the last one that was seen; where a newer one has begun, none is begun.

    `keep`: children of the run that is superseded, by task, that the new one keeps.
    """

    run: int | None = Field(default=None, ge=0, le=HIGHEST)
    keep: list[TaskId] = Field(default=[], max_length=500)


class HeartbeatIn(In):
    """`passes`: those that this process holds and still sends on."""

    passes: list[str] = Field(default=[], max_length=200)


class FailIn(In):
    error: Text = ""


NO_BEGIN: Any = functions.Body(BeginIn())
NO_HEARTBEAT: Any = functions.Body(HeartbeatIn())
NO_FAIL: Any = functions.Body(FailIn())


class GateIn(In):
    """One external effect; see `run.call`. `approve`: the question to which a person has to say yes first."""

    action: Name
    connector: Name
    args: dict[str, Any] = {}
    key: Line = ""
    call_id: Line = ""
    identify: list[str] | None = Field(default=None, max_length=100)
    deadline: Seconds | None = None
    approve: Text = ""


class ReceiptIn(In):
    """What was heard of an attempt. `said`: the result of a success, else the error or the provider's words."""

    held: str = Field(alias="pass")
    claim: Literal["accepted", "progress", "succeeded", "failed", "unsent", "lost"]
    ref: Annotated[Clean, Field(max_length=bodies.LONGEST_REF)] = ""
    said: Any = None
    progress: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)


class AskIn(In):
    """A question of the run to a person; asked again with its key, it is the same question."""

    key: Name
    text: Annotated[Text, Field(min_length=1)]
    kind: Literal["approve", "answer"] = "answer"
    choices: list[str] = Field(default=[], max_length=50)
    details: dict[str, Any] = {}
    within: float | None = Field(default=None, gt=0, le=LONGEST_WAIT, allow_inf_nan=False)


class AnswerIn(In):
    value: Text = APPROVED


NO_ANSWER: Any = functions.Body(AnswerIn())


class WaitIn(BaseModel):
    """For how many seconds to wait for an answer."""

    model_config = ConfigDict(extra="forbid")

    wait: Wait = 0


class SinceIn(WaitIn):
    """`cursor`: that of the last answer."""

    cursor: Line = ""


class StoppedOut(Out):
    by: str
    at: datetime
    reason: str


class TaskOut(Out):
    """A task and its state. `run` is the number of its last run, which a stop names; `live`: that run is.

    `late_stop`: a stop after it had finished; from then on only a person begins it again.
    """

    id: int
    title: str
    owner: str
    subject: str
    state: TaskState
    since: datetime
    run: int
    live: bool
    stopped: StoppedOut | None
    late_stop: StoppedOut | None
    created_at: datetime


class TasksOut(Out):
    """The newest first; `before` is what to ask with for the older ones, and null where there are none.

    Where the site has a rule of its own a page may hold fewer than `limit`, or none, before the last one.
    """

    tasks: list[TaskOut]
    before: int | None


class OperationOut(Out):
    """One operation. `label` is what a person reads of it, in full in the sentences, in the asked language."""

    id: int
    key: str
    incarnation: int
    connector: str
    action: str
    summary: str
    ref: str
    state: OperationState
    is_open: bool
    cancellation: str
    label: str
    name: str
    evidence: str
    cancelling: str
    next_step: str
    limit: str
    since: datetime | None
    progress: float | None
    link: str
    can_look_up: bool
    can_settle: bool
    can_undo: bool
    undo: str  # where it can be undone: what that does, and leaves
    undone: str  # what undoing it came to
    undoes: int | None


class InputOut(Out):
    """What a person has typed; its beginning, where `cut`."""

    id: int
    text: str
    cut: bool
    by: str
    at: datetime
    state: InputState
    label: str
    can_release: bool
    can_withdraw: bool


class QuestionOut(Out):
    """A question. `value` is the answer, once there is one."""

    id: int
    kind: Literal["approve", "answer"]
    text: str
    choices: list[str]
    details: str
    operation: int | None
    state: QuestionState
    asked_at: datetime
    until: datetime | None
    value: str
    reason: str


class ReportOut(Out):
    """The whole truth about a task at a moment; `cursor` is another one whenever it reads otherwise."""

    task: TaskOut
    summary: str
    agent: str
    failures: str
    held: list[str]
    operations: list[OperationOut]
    others: list[str]
    questions: list[QuestionOut]
    inputs: list[InputOut]
    family: str
    goes_on: bool
    unsure: bool
    stoppable: bool
    overdue: int
    changes_at: datetime | None
    cursor: str


class EventsOut(Out):
    """`report` is null where nothing has changed since the cursor in the time that was waited."""

    cursor: str
    report: ReportOut | None


class GoesOnOut(Out):
    task: int
    why: str
    by: int | None


class StopOut(Out):
    """What this press did. `why`: "", or why there was nothing to stop."""

    task: int
    stopped: bool
    why: Literal["", "already_stopped", "finished", "newer_run"]
    at: datetime
    open: list[int]
    never_sent: list[int]
    held: list[int]
    descendants: int
    goes_on: list[GoesOnOut]
    open_below: list[int]


class DoneOut(Out):
    """`done` is false where there was nothing to do: that is noted, and changes nothing."""

    done: bool


class RunOut(Out):
    """A run that has begun. `token` names it in the headers of jobs."""

    task: int
    run: int
    token: str


class StopSignalOut(Out):
    """Whether the run may go on. `over`: why it is over for good; `paused`: it goes on after a resume."""

    task: int
    run: int
    live: bool
    over: Over | None
    paused: bool


class HeartbeatOut(StopSignalOut):
    """`renewed`: the operations whose passes are good for `good_for` seconds from when this was asked.

    The others' are good for no longer than they were: they are over, or another lease would outlast their deadline.
    """

    renewed: list[int]


class PassedOut(Out):
    """Leave to send once: until `good_for` seconds after the gate was asked, unless a heartbeat renews it.

    `deadline`: seconds after the gate was asked by which the send has to have ended; none is renewed beyond it.
    """

    passed: Literal[True]
    operation: int
    attempt: int
    idempotency_key: str
    held: str = Field(serialization_alias="pass")
    good_for: float
    deadline: float


class DoneBeforeOut(Out):
    """It has succeeded before: send nothing. `result` is there where the run could admit it (`got`)."""

    passed: Literal[False]
    operation: int
    got: CallOutcome
    result: Any
    error: str


class WaitsOut(Out):
    """A person has not decided yet: ask the gate again, with the same words."""

    passed: Literal[False]
    question: QuestionOut


class ReceiptOut(Out):
    """What the operation became. `got`: what the run got of a success; `ignored` where it is over."""

    operation: int
    state: OperationState
    got: CallOutcome | None
    error: str


class ReceivedOut(Out):
    """The operations of which a webhook said something new, and those of which it was heard before."""

    kept: list[int]
    repeated: list[int]


class LookedOut(Out):
    """`asked` is false where the provider cannot be asked about it."""

    asked: bool
    operation: OperationOut
