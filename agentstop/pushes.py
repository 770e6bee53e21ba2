"""What a provider says by itself: a webhook, a queue, a mail. Kept as its word, whatever has become of the run."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db.models import Q

from agentstop import bodies, database, settle
from agentstop.models import Operation
from agentstop.settle import Heard
from agentstop.states import FINAL_CLAIMS, SIGNS_OF_LIFE, Claim, Source

PUSHED = FINAL_CLAIMS | SIGNS_OF_LIFE


def push(
    connector: str,
    claim: Claim | str,
    *,
    ref: str = "",
    key: str = "",
    body: Any = None,
    at: datetime | None = None,
) -> list[int]:
    """Record what the provider of this connector says of an operation; the ids of those that it is about.

    They are named by the provider's `ref` or by the idempotency `key` that it was given; an empty answer means that
    none is known here. A final word should carry the `ref`: by that alone it speaks where an operation was sent twice.
    `at` is the provider's own clock. Whoever calls this has checked who speaks. It starts no agent work.
    """
    if claim not in sorted(PUSHED):
        raise ValueError(f"claim must be one of {', '.join(sorted(PUSHED))}, not {claim!r}.")
    found = list(_named(connector, ref, key).order_by("pk").values_list("pk", flat=True))
    for operation in found:
        asked = database.now()
        stored, whole = bodies.pair(body)
        heard = Heard(Claim(claim), Source.PROVIDER, asked, ref=ref, body=stored, result=whole, provider_at=at)
        settle.record(operation, [heard])
    return found


def _named(connector: str, ref: str, key: str) -> Any:
    if not ref and not key:
        raise ValueError("Pass ref= or key=: without one nothing says which operation it is about.")
    rows = Operation.objects.using(database.alias()).filter(connector=connector)
    named = Q(pk__in=[])
    if ref:
        named |= Q(ref=ref) | Q(receipts__ref=ref)
    if key:
        try:
            named |= Q(idempotency_key=uuid.UUID(key))
        except ValueError:
            return rows.none()
    return rows.filter(named).distinct()
