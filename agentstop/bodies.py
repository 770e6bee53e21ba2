"""Results and requests as text that any database can store: capped, redacted, safe for NUL and broken characters."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentstop import conf

MASK = "•••"
DEEPEST = 50  # levels into a value in which secrets are looked for
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Form(StrEnum):
    """How a stored text turns into a value again."""

    JSON = "json"
    TEXT = "text"
    REPR = "repr"  # of a value that has no JSON form: for people only


@dataclass(frozen=True, slots=True)
class Body:
    """A value as stored. `size` is its full length in bytes; `cut` says that `text` holds only the beginning."""

    text: str
    form: Form
    size: int
    cut: bool = False

    @property
    def value(self) -> Any:
        return json.loads(self.text) if self.form is Form.JSON and not self.cut else self.text


NOTHING = Body("", Form.TEXT, 0)


def safe(text: str) -> str:
    """The same text without what databases refuse: NUL and lone surrogates become replacement characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def store(value: Any) -> Body:
    """The body that stands for a value; never raises, whatever the value is."""
    form, text = _encode(_redacted(value))
    raw = text.encode("utf-8")
    cap = conf.RESULT_CAP
    if len(raw) <= cap:
        return Body(text, form, len(raw))
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
    text = json.dumps([connector, action, chosen], sort_keys=True, default=_repr, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def summarise(args: Mapping[str, Any]) -> str:
    """A short line about a request for people; values of secret names are never in it."""
    text = json.dumps(_redacted(dict(args)), ensure_ascii=False, default=_repr)
    text = safe(text)
    cap = conf.SUMMARY_CAP
    return text if len(text) <= cap else text[: cap - 1] + "…"


def _redacted(value: Any, depth: int = 0) -> Any:
    """The value with the secrets in it masked: in objects and lists, which is how providers and arguments name them."""
    if depth > DEEPEST:
        return value
    if isinstance(value, dict):
        return {k: MASK if _secret(k) else _redacted(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_redacted(item, depth + 1) for item in value]
    return value


def _secret(name: Any) -> bool:
    """By whole words of the name: `access_token` and `apiKey` are secrets, `total_tokens` is not."""
    words = "_".join(_WORD.findall(name)).lower() if isinstance(name, str) else ""
    return any(f"_{secret}_" in f"_{words}_" for secret in conf.REDACT)


def one_line(value: str, name: str, length: int = 255) -> str:
    """The value, checked to be usable as a name or key: a clear ValueError where it is not."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text that is not empty, not {value!r}.")
    if "\x00" in value or safe(value) != value:
        raise ValueError(f"{name} contains a NUL or broken character: {value!r}. Pass clean text.")
    if len(value) > length:
        raise ValueError(f"{name} is {len(value)} characters long; at most {length} are kept. Pass a shorter one.")
    return value
