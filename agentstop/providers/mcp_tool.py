"""What the settings can say about one tool of an MCP server, and what follows for stopping it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from agentstop.providers.base import Cancel, Capability, Disconnect, LookUp

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
REVISIONS = (HANDSHAKE, STATELESS)

SILENCE = timedelta(seconds=60)  # after progress, until a call of which nothing more is heard becomes unknown
TASK_SILENCE = timedelta(minutes=10)  # the same for a task: each look-up that finds it working begins it anew


class Policy(StrEnum):
    """Whether a stop asks the server to give a call of this tool up."""

    HINTS = "hints"  # where that costs no receipt; where it does, for tools whose hints say that it does no harm
    ASK = "ask"  # always
    NEVER = "never"  # it is left to finish, and its answer kept


class ToolErrors(StrEnum):
    """What a result that the tool marks as an error (`isError`) says about the effect."""

    HINTS = "hints"  # of a tool that only reads, that there is none; of others nothing
    FAILED = "failed"  # there is none: the tool checks all that can go wrong before it acts
    UNKNOWN = "unknown"  # nothing: it may have failed half-way


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool as the operator knows it. The defaults claim nothing.

    `task`: it is called as a task, that is looked up and cancelled by the id which the server gives it. `ttl`: for how
    many seconds the server is asked to keep it. `key_argument`: the argument in which the tool takes the idempotency
    key; it is in `_meta` anyway. `capability`: claimed in place of what follows from the rest, as the probe prints it.
    """

    cancel: str = Policy.HINTS
    task: bool = False
    ttl: float | None = None
    key_argument: str = ""
    errors: str = ToolErrors.HINTS
    capability: Capability | None = None


@dataclass(frozen=True, slots=True)
class Hints:
    """What a server says about a tool of its own, and need not be true."""

    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False

    @property
    def harmless(self) -> bool:
        """Giving it up, and not knowing what became of it, costs nothing that a second call would not make good."""
        return self.read_only or (self.idempotent and not self.destructive)


def hints_of(annotations: Mapping[str, Any] | None) -> Hints:
    """The hints of a tool as it is listed; what is missing or no boolean counts as the protocol's default."""
    told = annotations or {}

    def hint(name: str, default: bool) -> bool:
        value = told.get(name)
        return value if isinstance(value, bool) else default

    return Hints(hint("readOnlyHint", False), hint("destructiveHint", True), hint("idempotentHint", False))


def disconnect_in(revision: str | None, *, http: bool) -> Disconnect:
    """What the protocol makes of a lost connection. Over stdio the server is lost with it, whatever it was doing."""
    if not http:
        return Disconnect.UNKNOWN
    return {HANDSHAKE: Disconnect.GOES_ON, STATELESS: Disconnect.CANCELS}.get(revision or "", Disconnect.UNKNOWN)


def capability_of(
    tool: McpTool, *, notified: bool, hints: Hints | None, disconnect: Disconnect = Disconnect.UNKNOWN
) -> Capability:
    """What a tool can do about its effects. `notified`: asking to give up does not close the way of its answer."""
    harmless = notified or tool.task or (hints is not None and hints.harmless)
    ask = tool.cancel == Policy.ASK or (tool.cancel == Policy.HINTS and harmless)
    claimed = tool.capability or Capability(
        look_up=LookUp.BY_REF if tool.task else LookUp.NONE,
        authoritative=tool.task,  # a task that was there and is gone: nobody knows what became of it
        max_age=TASK_SILENCE if tool.task else SILENCE,
        cancel_needs_ref=False,
    )
    if claimed.disconnect is Disconnect.UNKNOWN:
        claimed = replace(claimed, disconnect=disconnect)
    if not ask:
        return replace(claimed, cancel=Cancel.NEVER)
    return replace(claimed, cancel=Cancel.BEST_EFFORT if claimed.cancel is Cancel.NEVER else claimed.cancel)


def with_errors_told(tool: McpTool, hints: Hints | None) -> McpTool:
    """The same tool, with its hints taken into account in what its errors say."""
    if tool.errors != ToolErrors.HINTS:
        return tool
    harmless = hints is not None and hints.read_only
    return replace(tool, errors=ToolErrors.FAILED if harmless else ToolErrors.UNKNOWN)


def checked_tools(tools: Mapping[str, McpTool]) -> Mapping[str, McpTool]:
    """The same, or an ImproperlyConfigured that says which tool's description is wrong and what to write."""
    for name, tool in tools.items():
        if not isinstance(tool, McpTool):
            raise ImproperlyConfigured(f"McpProvider tool {name!r} is {tool!r:.100}: pass an McpTool.")
        for field, words in (("cancel", Policy), ("errors", ToolErrors)):
            if getattr(tool, field) not in list(words):
                raise ImproperlyConfigured(
                    f"McpProvider tool {name!r} has {field}={getattr(tool, field)!r}: use one of {', '.join(words)}."
                )
        if tool.ttl is not None and not (tool.task and tool.ttl > 0):
            raise ImproperlyConfigured(
                f"McpProvider tool {name!r} has ttl={tool.ttl!r}: pass seconds above 0, with task=True."
            )
        wants = LookUp.BY_REF if tool.task else LookUp.NONE
        if tool.capability is not None and tool.capability.look_up is not wants:
            raise ImproperlyConfigured(
                f"McpProvider tool {name!r} claims look_up={tool.capability.look_up}; with task={tool.task}: {wants}."
            )
    return tools
