"""What providers say by themselves: checked by their connector's own hook, and kept as receipts like any other.

Forged, old and unreadable ones change nothing. The same message is kept once, however often it is delivered.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db.models.functions import Left
from django.utils.crypto import salted_hmac

from agentstop import asking, bodies, connectors, database, settle
from agentstop.exceptions import AgentStopError, ConnectorNotConfigured, NotSigned
from agentstop.models import Operation, Receipt
from agentstop.models.facts import REF_BEGINNING
from agentstop.providers.base import Pushed, Webhook
from agentstop.states import FINAL_CLAIMS, Claim, Source

logger = logging.getLogger(__name__)

SALT = "agentstop.webhook"
CLAIMS = FINAL_CLAIMS | {Claim.ACCEPTED, Claim.RUNNING}
SOURCES = frozenset({Source.PROVIDER, Source.INTERMEDIARY})
MOST = 1_000  # operations that one webhook tells of


class NoWebhooks(AgentStopError):
    """There is no connector of that name which takes webhooks."""


class NotOurs(AgentStopError):
    """A signed webhook is about nothing that is known here, perhaps not yet, or about several at once."""


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a webhook: the operations that it said something new of, and those it had told of before."""

    kept: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()


def receive(connector: str, webhook: Webhook) -> Received:
    """Keep what the provider says, each operation in a commit of its own; what it settles is folded as ever.

    Raises NoWebhooks, NotSigned, ValueError where it cannot be read, and NotOurs once all that is known was kept:
    delivered again it does no harm, and may find what was not known yet.
    """
    said = [_checked(one) for one in _read(connector, webhook)]
    if len(said) > MOST:
        raise ValueError(f"it tells of {len(said)} operations, more than {MOST} at once")
    found = [(one, _operation(connector, one)) for one in said]
    kept: list[int] = []
    repeated: list[int] = []
    for one, operation in found:
        if operation is not None:
            (repeated if _keep(operation, connector, one, webhook) else kept).append(operation)
    told = Received(tuple(kept), tuple(repeated))
    extra = {"action": "webhook", "connector": connector, "operations": kept}
    logger.info("webhook of %s: %s kept, %s repeated", connector, len(kept), len(repeated), extra=extra)
    if any(operation is None for _, operation in found):
        raise NotOurs("Nothing known here has the key or reference that this webhook names, or several have it.")
    return told


def _read(connector: str, webhook: Webhook) -> Sequence[Pushed]:
    try:
        takes = connectors.takes_webhooks(connector)
    except ConnectorNotConfigured:
        takes = False
    if not takes:
        raise NoWebhooks("There is no connector of that name that takes webhooks.")
    try:
        return connectors.get(connector).webhook(webhook)
    except (NotSigned, ValueError):
        raise
    except Exception as error:  # its own code: whoever delivers it can do nothing about that but try again
        logger.exception("a webhook could not be read", extra={"action": "webhook_failed", "connector": connector})
        raise ValueError("its connector cannot read it") from error


def _checked(said: Pushed) -> Pushed:
    answer = said.answer
    if answer.claim not in CLAIMS or answer.source not in SOURCES:
        raise ValueError(f"a webhook cannot say {answer.claim} by {answer.source}")
    if not (said.key or answer.ref):
        raise ValueError("it names neither the key nor the reference of an operation")
    return said


def _operation(connector: str, said: Pushed) -> int | None:
    """The one operation of this connector that is meant; None where there is none, or several."""
    operations = Operation.objects.using(database.alias()).filter(connector=connector)
    if said.key:
        key = _uuid(said.key)
        return operations.filter(idempotency_key=key).values_list("pk", flat=True).first() if key else None
    ref = bodies.safe(said.answer.ref)[: bodies.LONGEST_REF]
    heard = Receipt.objects.using(database.alias()).annotate(beginning=Left("ref", REF_BEGINNING))
    heard = heard.filter(beginning=ref[:REF_BEGINNING], ref=ref).exclude(ref="")
    found = operations.filter(pk__in=heard.values("operation")).values_list("pk", flat=True)[:2]
    return found[0] if len(found) == 1 else None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _keep(operation: int, connector: str, said: Pushed, webhook: Webhook) -> bool:
    """Whether it had been kept before. A push answers no attempt: what it speaks for the fold finds out."""
    heard = asking.heard(said.answer, database.now())
    event = _event(connector, said, webhook)
    return settle.record(operation, [replace(heard, event=event)]).repeated


def _event(connector: str, said: Pushed, webhook: Webhook) -> str:
    """Which message it is. Of several about one operation in one webhook each is its own.

    Keyed, so that it tells nobody what was in a message whose text was erased.
    """
    name = said.event.encode("utf-8", "surrogatepass") or webhook.body
    answer = said.answer
    what = "\0".join([connector, answer.claim, answer.ref, str(answer.progress), ""])
    told = hashlib.sha256(what.encode("utf-8", "surrogatepass") + name).digest()
    return salted_hmac(SALT, told, algorithm="sha256").hexdigest()
