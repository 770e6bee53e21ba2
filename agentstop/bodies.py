"""Results and requests as text that any database can store: capped, redacted, safe for NUL and broken characters."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentstop import conf

MASK = "•••"
LONGEST_REF = 2_000  # characters of a provider's reference
LONGEST_REASON = 10_000  # characters of what a person wrote
DEEPEST = 50  # levels into a value in which secrets are looked for
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Form(StrEnum):
    """How a stored text turns into a value again."""

    JSON = "json"
    TEXT = "text"
    REPR = "repr"  # of a value that has no JSON form: for people only
    ERASED = "erased"  # there was a value; its size is still known


@dataclass(frozen=True, slots=True)
class Body:
    """A value as stored. `size` is its full length in bytes; `cut` says that `text` holds only the beginning."""

    text: str
    form: Form
    size: int
    cut: bool = False

    @property
    def value(self) -> Any:
        if self.form is Form.ERASED:
            return None
        return json.loads(self.text) if self.form is Form.JSON and not self.cut else self.text


NOTHING = Body("", Form.TEXT, 0)


def safe(text: str) -> str:
    """The same text without what databases refuse: NUL and lone surrogates become replacement characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def reason(text: str) -> str:
    """What a person wrote, as it can be stored: of a very long one only the beginning."""
    return safe(text)[:LONGEST_REASON]


def store(value: Any, *, cut: bool = False) -> Body:
    """The body that stands for a value as evidence, its secrets masked; never raises, whatever the value is.

    `cut`: the value is only the beginning of what there was.
    """
    return pair(value, cut=cut)[0]


def pair(value: Any, *, cut: bool = False) -> tuple[Body, Body]:
    """Two bodies of a value: as evidence, with its secrets masked, and as it is, for the context of who asked."""
    whole = _capped(value, cut)
    masked = _masked(value)
    return (whole if masked is value else _capped(masked, cut)), whole


def _masked(value: Any) -> Any:
    """The value without its secrets; the very same object where there are none."""
    if isinstance(value, str) and value[:1] in "{[" and len(value) <= conf.RESULT_CAP:
        return _masked_text(value)
    masked = _redacted(value) if isinstance(value, dict | list) else value
    return value if masked == value else masked


def _masked_text(text: str) -> str:
    """Text that is JSON may hold secrets by name as well."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    masked = _redacted(value)
    return text if masked == value else json.dumps(masked, ensure_ascii=False)


def _capped(value: Any, cut: bool) -> Body:
    form, text = _encode(value)
    raw = text.encode("utf-8")
    cap = conf.RESULT_CAP
    if len(raw) <= cap:
        return Body(text, form, len(raw), cut)
    return Body(raw[:cap].decode("utf-8", "ignore"), form, len(raw), cut=True)


def _encode(value: Any) -> tuple[Form, str]:
    if isinstance(value, str):
        return Form.TEXT, safe(value)
    if isinstance(value, bytes):
        return Form.TEXT, safe(value.decode("utf-8", "replace"))
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # json escapes NUL, and PostgreSQL stores the escape in a text column as it is
        return Form.JSON, safe(text)
    except (TypeError, ValueError, RecursionError):
        return Form.REPR, safe(_repr(value))


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # a broken __repr__ must not cost the receipt
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def digest(connector: str, action: str, args: Mapping[str, Any], identify: Iterable[str] | None = None) -> str:
    """A fingerprint of what identifies a request: all of its arguments, or the ones named."""
    chosen = dict(args) if identify is None else {name: args[name] for name in sorted(identify)}
    try:
        text = json.dumps([connector, action, chosen], sort_keys=True, default=_repr, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"The arguments of {action!r} have no form to compare them by ({error}). Use texts as names, and values "
            "that JSON knows; or name the identifying ones with identify=."
        ) from error
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def summarise(args: Mapping[str, Any], *, cap: int | None = None) -> str:
    """A line about a request for people, by default a short one; values of secret names are never in it."""
    try:
        text = safe(json.dumps(_redacted(dict(args)), ensure_ascii=False, default=_repr))
    except (TypeError, ValueError, RecursionError):
        return ""  # what cannot be written as JSON cannot be searched for secrets
    cap = conf.SUMMARY_CAP if cap is None else cap
    return text if len(text) <= cap else text[: cap - 1] + "…"


def _redacted(value: Any, depth: int = 0) -> Any:
    """The value with the secrets in it masked: in objects and lists, which is how providers and arguments name them."""
    if depth > DEEPEST:
        return value
    if isinstance(value, dict):
        return {k: MASK if is_secret(k) else _redacted(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_redacted(item, depth + 1) for item in value]
    return value


def is_secret(name: Any) -> bool:
    """By whole words of the name: `access_token` and `apiKey` are secrets, `total_tokens` is not."""
    words = "_".join(_WORD.findall(name)).lower() if isinstance(name, str) else ""
    return any(f"_{secret}_" in f"_{words}_" for secret in conf.REDACT)


def many(values: Any, name: str, what: str) -> tuple[Any, ...]:
    """What an iterable gives; ValueError for one that is none, or a text, whose letters nobody means."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"{name} takes a list of {what}, not {reprlib.repr(values)}.")
    return tuple(values)


def one_line(value: str, name: str, length: int = 255) -> str:
    """The value, checked to be usable as a name or key: a clear ValueError where it is not."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty, not {value!r}.")
    if "\x00" in value or safe(value) != value:
        raise ValueError(f"{name} contains a NUL or broken character: {value!r}. Pass clean text.")
    if len(value) > length:
        raise ValueError(f"{name} is {len(value)} characters long; at most {length} are kept. Pass a shorter one.")
    return value
