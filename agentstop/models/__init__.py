"""The tables. Facts (Decision, Attempt, Receipt, Call) are only added; states are folded from them."""

from agentstop.models.context import ContextEntry
from agentstop.models.facts import Attempt, Call, Decision, Receipt
from agentstop.models.freeze import Freeze, FreezeClock
from agentstop.models.inputs import Input, InputEvent
from agentstop.models.operation import Operation
from agentstop.models.questions import Question
from agentstop.models.task import Family, Run, ServingLink, Task
from agentstop.models.tokens import ServiceToken
from agentstop.models.unseen import Look, Unseen

__all__ = [
    "Attempt",
    "Call",
    "ContextEntry",
    "Decision",
    "Family",
    "Freeze",
    "FreezeClock",
    "Input",
    "InputEvent",
    "Look",
    "Operation",
    "Question",
    "Receipt",
    "Run",
    "ServiceToken",
    "ServingLink",
    "Task",
    "Unseen",
]
