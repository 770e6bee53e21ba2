"""What a call of a tool asks of the gate, and what its caller gets back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentstop import request as requests
from agentstop.carry import Manner, OnStop, Tool
from agentstop.exceptions import AgentStopError, NoRun, Stale, ToolFailed
from agentstop.outcomes import Classify, Outcome
from agentstop.request import Request
from agentstop.runs import current_run

Key = str | Callable[..., str]
OWNERS = ("self", "cls")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the decorator was told of a function."""

    function: Callable[..., Any]
    signature: inspect.Signature
    connector: str
    key: Key
    action: str
    identify: tuple[str, ...] | None
    deadline: float | None
    classify: Classify
    on_stop: OnStop
    wait: bool

    def request(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Request:
        """Of this call, for the run at hand; NoRun outside of one."""
        run = current_run.get()
        if run is None:
            raise NoRun(f"{self.action} was called outside of a run. Call it within `with run:`. Nothing was sent.")
        named = arguments(self.signature, args, kwargs)
        options: requests.Options = {
            "connector": self.connector,
            "key": key_of(self.key, named, self.action),
            "identify": self.identify,
            "deadline": self.deadline,
        }
        return requests.make(run.task_id, run.number, self.action, named, options)

    def manner(self, send: Tool) -> Manner:
        return Manner(send, self.classify, self.on_stop, self.wait)


def arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without the object that a method belongs to."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return {name: value for at, (name, value) in enumerate(bound.arguments.items()) if at or name not in OWNERS}


def key_of(key: Key, named: Mapping[str, Any], action: str) -> str:
    """The key of this call; a ValueError where the template names what is no argument."""
    if not isinstance(key, str):
        return key(**named)
    try:
        return key.format(**named)
    except (LookupError, AttributeError) as error:
        raise ValueError(
            f"The key {key!r} of {action} names {error}, which its arguments ({', '.join(named)}) do not have."
        ) from error


def value_of(outcome: Outcome, raised: BaseException | None) -> Any:
    """The result, if the run got it. Raises the refusal, what the tool itself has raised, Stale or ToolFailed."""
    if outcome.refusal is not None:
        raise outcome.refusal
    if outcome.accepted:
        return outcome.result
    if outcome.ignored:
        raise Stale(
            f"The run is over: operation {outcome.operation} was sent before. What becomes of it is kept as a receipt, "
            "not given to this run."
        )
    if raised is not None:
        raise raised
    raise failed(outcome)


def failed(outcome: Outcome) -> AgentStopError:
    """For an outcome without a usable result, that no error of the tool itself explains."""
    return ToolFailed(f"Operation {outcome.operation} gave no usable result: {outcome.error}")


def names(identify: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if identify is None else tuple(identify)
