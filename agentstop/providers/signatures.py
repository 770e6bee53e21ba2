"""Signatures of webhooks, as most providers make them: an HMAC of the time and the bytes, compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from django.core.exceptions import ImproperlyConfigured

from agentstop.exceptions import NotSigned
from agentstop.providers.base import Webhook

TOLERANCE = 300.0  # seconds that a provider's clock may differ from ours, travel included
PREFIX = "whsec_"  # of a secret of Standard Webhooks: the rest is base64


class Form(StrEnum):
    """How the signature stands in the headers."""

    STANDARD = "standard"  # Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature "v1,<base64> …"
    TIMED = "timed"  # as Stripe has it: one header "t=<seconds>,v1=<hex>,…"


@dataclass(frozen=True, slots=True)
class Signed:
    """How a provider signs its webhooks. Any of `secrets` will do, so that one can follow on another.

    `tolerance` in seconds: what was signed earlier, or later, is refused. `header`: of the form `timed`.
    """

    secrets: Sequence[str] = field(repr=False)
    form: Form = Form.STANDARD
    tolerance: float = TOLERANCE
    header: str = "Stripe-Signature"

    def __post_init__(self) -> None:
        if isinstance(self.secrets, str) or not self.secrets or not all(map(_key_of(self.form), self.secrets)):
            raise ImproperlyConfigured("Signed has no secrets, or an empty one: pass secrets=[…] of the endpoint.")

    def check(self, webhook: Webhook) -> None:
        """Pass where one of the secrets has signed these bytes just now; else NotSigned, which names no secret."""
        read = {Form.STANDARD: _standard, Form.TIMED: self._timed}[self.form]
        stamp, signed, given = read(webhook)
        expected = [self._signature(secret, signed) for secret in self.secrets]
        # All are compared, so that the time which it takes tells nothing.
        if not sum(hmac.compare_digest(each, one) for each in expected for one in given):
            raise NotSigned("The signature of this webhook is not that of its provider. Nothing was believed.")
        if abs(time.time() - stamp) > self.tolerance:
            raise NotSigned(f"This webhook was not signed within the last {self.tolerance:.0f} seconds. Send it anew.")

    def _timed(self, webhook: Webhook) -> tuple[int, bytes, list[bytes]]:
        parts = [part.strip().partition("=") for part in webhook.headers.get(self.header.lower(), "").split(",")]
        stamp = next((value for name, _, value in parts if name == "t"), "")
        given = [value.encode() for name, _, value in parts if name == "v1"]
        return _seconds(stamp), b".".join([stamp.encode(), webhook.body]), given

    def _signature(self, secret: str, signed: bytes) -> bytes:
        made = hmac.new(_key_of(self.form)(secret), signed, hashlib.sha256)
        return made.hexdigest().encode() if self.form is Form.TIMED else base64.b64encode(made.digest())


def _standard(webhook: Webhook) -> tuple[int, bytes, list[bytes]]:
    name, stamp = webhook.headers.get("webhook-id", ""), webhook.headers.get("webhook-timestamp", "")
    parts = [part.partition(",") for part in webhook.headers.get("webhook-signature", "").split()]
    given = [value.encode() for version, _, value in parts if version == "v1"]
    return _seconds(stamp), b".".join([name.encode(), stamp.encode(), webhook.body]), given


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise NotSigned("This webhook does not say when it was signed. Nothing was believed.")
    return int(text)


def _key_of(form: Form) -> Callable[[str], bytes]:
    return _decoded if form is Form.STANDARD else str.encode


def _decoded(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        # The secret itself is never told.
        raise ImproperlyConfigured("A secret of Standard Webhooks is whsec_ and base64, and this one is not.") from None
