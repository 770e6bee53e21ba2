"""What one HTTP API can do: its actions, where to ask and where to cancel, as frozen values that are checked."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured

from agentstop.providers.base import Capability, LookUp
from agentstop.states import Claim

BODILESS = frozenset({"GET", "HEAD", "DELETE"})

BY_OUR_NAME = {LookUp.BY_KEY: "key", LookUp.BY_CLIENT_REF: "client_ref", LookUp.SEARCH: "search"}
SENT_ALONG = frozenset({LookUp.BY_CLIENT_REF, LookUp.SEARCH})

STATES: Mapping[str, Claim] = {
    "queued": Claim.RUNNING,
    "running": Claim.RUNNING,
    "succeeded": Claim.SUCCEEDED,
    "completed": Claim.SUCCEEDED,
    "failed": Claim.FAILED,
    "cancelled": Claim.CANCELLED,
    "canceled": Claim.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class HttpAction:
    """One action of an HTTP API.

    Paths are templates: `{key}` is the idempotency key, `{ref}` the provider's reference, any other name a field of
    the arguments; what the path does not take is sent as a JSON body (as the query where the method has no body).
    A path that is just `{ref}` means that the reference is an address itself, as `Location` gives it.
    Fields of answers are names in a JSON object, with dots into nested ones; an empty name means that there is none.
    """

    path: str
    method: str = "POST"
    capability: Capability = field(default_factory=Capability)
    look_up_path: str = ""
    cancel_path: str = ""
    cancel_method: str = "DELETE"
    state_field: str = "status"  # empty: that the look-up finds it means that it succeeded
    states: Mapping[str, Claim] = field(default_factory=lambda: STATES)  # the provider's words, in lower case
    ref_field: str = ""  # empty: the reference is the Location
    result_field: str = ""  # empty: the whole answer is the result
    at_field: str = ""  # ISO time with an offset: when the provider says that it happened
    progress_field: str = ""  # a number from 0 to 1
    key_field: str = ""  # of the request: carries the key too, where a look-up finds it again
    found_field: str = ""  # of a search: the list of what was found; empty: the whole answer is that list

    def problems(self) -> Iterator[str]:
        """What is wrong with it, each with what to do; nothing where all is well."""
        for name in ("path", "look_up_path", "cancel_path"):
            yield from _template_problems(name, getattr(self, name), required=name == "path")
        capability = self.capability
        if capability.look_up is LookUp.NONE and self.look_up_path:
            yield "has a look_up_path, but its capability says look_up=none: set look_up or remove the path"
        if capability.look_up in BY_OUR_NAME and "{key}" not in self.look_up_path:
            yield f"looks up by {BY_OUR_NAME[capability.look_up]}, but its look_up_path has no {{key}}: add it"
        if capability.look_up is LookUp.BY_REF and "{ref}" not in self.look_up_path:
            yield "looks up by ref, but its look_up_path has no {ref}: add it"
        if capability.cancellable != bool(self.cancel_path):
            yield "needs a cancel_path exactly where its capability says that it can be cancelled: set both or neither"
        if self.cancel_path and capability.cancel_needs_ref != ("{ref}" in self.cancel_path):
            yield "must say cancel_needs_ref exactly where its cancel_path has {ref}: change one of them"
        if capability.look_up in SENT_ALONG and not (self.key_field or "{key}" in self.path):
            yield "is asked by what was sent along, but sends no key along: set key_field"
        yield from capability.problems()
        for word, claim in self.states.items():
            if word != word.lower() or not isinstance(claim, Claim):
                yield f"maps the state {word!r} to {claim!r}: use lower case and a Claim"


def checked_actions(actions: Mapping[str, HttpAction]) -> dict[str, HttpAction]:
    """The actions, or one sentence that says which of them is wrong and how to put it right."""
    if not isinstance(actions, Mapping) or not actions:
        raise ImproperlyConfigured("HttpProvider has no actions: pass actions={'report.create': HttpAction(...)}.")
    for name, action in actions.items():
        if not isinstance(action, HttpAction):
            raise ImproperlyConfigured(f"HttpProvider action {name!r} is {action!r}: make it an HttpAction(...).")
        for problem in (*action.problems(), *_undo_problems(action, actions)):
            raise ImproperlyConfigured(f"HttpProvider action {name!r} {problem}.")
    return dict(actions)


def _undo_problems(action: HttpAction, actions: Mapping[str, HttpAction]) -> Iterator[str]:
    undo = action.capability.compensation
    if undo is not None and undo.action not in actions:
        yield f"is undone by {undo.action!r}, which is none of the actions: add it, or remove the compensation"


def fields(template: str) -> frozenset[str]:
    """The names that a path template takes."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


def fill(template: str, values: Mapping[str, Any]) -> str:
    """The path with each value quoted into one segment; a value that would lead elsewhere is a ValueError."""
    quoted = {}
    for name in fields(template):
        if name not in values:
            raise ValueError(f"the path {template} needs the argument {name!r}: pass it")
        text = str(values[name])
        if text in {"", ".", ".."}:
            raise ValueError(f"the argument {name!r} is {text!r}, which names nothing in the path {template}")
        quoted[name] = quote(text, safe="")
    return template.format_map(quoted)


def with_field(values: Mapping[str, Any], path: str, value: str) -> dict[str, Any]:
    """A copy with one more field, whose name may lead with dots into nested objects."""
    name, _, rest = path.partition(".")
    inside = values.get(name)
    if not rest:
        return {**values, name: value}
    return {**values, name: with_field(inside if isinstance(inside, Mapping) else {}, rest, value)}


def _template_problems(name: str, template: str, *, required: bool) -> Iterator[str]:
    if not template and not required:
        return
    if not template.startswith("/") and template != "{ref}":
        yield f"has the {name} {template!r}: begin it with a slash"
        return
    try:
        names = fields(template)
    except ValueError:
        yield f"has unbalanced braces in its {name} {template!r}: write fields as {{name}}"
        return
    if not all(part.isidentifier() for part in names):
        yield f"has a field without a plain name in its {name} {template!r}: write fields as {{name}}"
    if name == "path" and "ref" in names:
        yield "has {ref} in its path, but nothing has a reference before it was sent: use {key} or an argument"
